"""The code tab: files that a run was submitted with, the difference to the commit, and what it ran with."""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui

from runspine.code.tree import LINK, CodeTree, TreeEntry
from runspine.errors import RunspineError
from runspine.services.dashboard.edges.api_code import read_object, read_tree
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.notices import empty, problem
from runspine.services.dashboard.pages.elements.plain_text import block, difference
from runspine.text.code import code_text, packages_text
from runspine.text.provenance import provenance_lines
from runspine.text.values import size
from runspine.wire.v1.spec_pb2 import Code
from runspine.wire.v1.trainer_pb2 import GetResponse

# Beyond these there is the archive, and `runspine code`.
MAX_FILES = 300
MAX_SHOWN_BYTES = 256 << 10
MAX_SHOWN_LINES = 3_000


async def draw_code(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    spec = answer.run.spec
    lines = [("code", code_text(spec.code)), ("packages", packages_text(spec.packages))]
    if answer.attempts:
        lines += provenance_lines(answer.attempts[-1].provenance)
    with ui.element("div").classes("rs-facts"):
        for word, text in lines:
            if text:
                ui.label(f"{word}: {text}").classes("rs-quiet")
    if not spec.code.tree:
        empty(
            "No stored code",
            "The program ran from a folder of its worker, from its image, or from its runner.",
        )
        return
    try:
        tree = await read_tree(visitor.access, spec.code.tree)
    except RunspineError as error:
        problem("The code cannot be loaded", str(error))
        return
    await CodeTab(visitor, answer.run.id, spec.code, tree).draw()


class CodeTab:
    def __init__(self, visitor: Visitor, run_id: str, code: Code, tree: CodeTree) -> None:
        self._visitor = visitor
        self._run_id = run_id
        self._code = code
        self._tree = tree

    async def draw(self) -> None:
        with ui.row().classes("rs-bar"):
            ui.link("Download all", f"/api/code/{self._run_id}/archive").classes("rs-link")
        if self._code.origin.diff:
            ui.label("Difference to the commit").classes("rs-section")
            await self._draw_difference()
        ui.label(f"Files ({len(self._tree.files):,})").classes("rs-section")
        for entry in self._tree.entries[:MAX_FILES]:
            self._draw_entry(entry)
        if len(self._tree.entries) > MAX_FILES:
            more = f"{len(self._tree.entries) - MAX_FILES:,} more: runspine code {self._run_id[:12]}"
            ui.label(more).classes("rs-quiet")

    async def _draw_difference(self) -> None:
        try:
            data = await read_object(self._visitor.access, self._code.origin.diff)
        except RunspineError as error:
            ui.label(str(error)).classes("rs-bad")
            return
        lines = data.decode("utf-8", "replace").splitlines()
        difference(lines[:MAX_SHOWN_LINES])
        if len(lines) > MAX_SHOWN_LINES or self._code.origin.diff_cut:
            ui.label("It goes on; the files themselves are whole.").classes("rs-quiet")

    def _draw_entry(self, entry: TreeEntry) -> None:
        if entry.kind == LINK:
            ui.label(f"{entry.path} → {entry.target}").classes("rs-quiet")
            return
        drawn: list[bool] = []
        with ui.expansion(f"{entry.path}  ({size(entry.size)})").classes("w-full") as row:

            async def show() -> None:
                if row.value and not drawn:
                    drawn.append(True)
                    with row:
                        await self._show(entry)

            row.on_value_change(show)

    async def _show(self, entry: TreeEntry) -> None:
        ui.link("Download", f"/api/code/{self._run_id}/file/{quote(entry.path)}").classes("rs-link")
        if entry.size > MAX_SHOWN_BYTES:
            ui.label("It is too large to be shown here.").classes("rs-quiet")
            return
        try:
            data = await read_object(self._visitor.access, entry.digest)
        except RunspineError as error:
            ui.label(str(error)).classes("rs-bad")
            return
        if b"\0" in data:
            ui.label("It is no text.").classes("rs-quiet")
        else:
            block(data.decode("utf-8", "replace"))
