"""Videos and other files of a run: whole or not, kept or not, and by which rule."""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui

from runspine.cli.artifact_words import keeping_words
from runspine.cli.text import age, size
from runspine.errors import RunspineError
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.trainer_pb2 import GetResponse
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.integrity import integrity_badge, retained_words
from services.dashboard.pages.notices import empty, problem

PAGE = 500
# Files that are listed one by one; `runspine artifacts list` has them all.
MOST = 200
MOST_VIDEOS = 12


async def draw_files(desk: Desk, visitor: Visitor, answer: GetResponse) -> None:
    await FilesTab(visitor, answer.run.id).draw()


class FilesTab:
    def __init__(self, visitor: Visitor, run_id: str) -> None:
        self._visitor = visitor
        self._run_id = run_id

    async def draw(self) -> None:
        self._body = ui.column().classes("w-full")
        await self._look()

    async def _look(self) -> None:
        ask = self._visitor.access.ask
        request = wire.ListArtifactsRequest(run=self._run_id, with_pruned=True, page_size=PAGE)
        self._body.clear()
        with self._body:
            try:
                found = await ask("artifacts", "List", request)
                rules = await ask("artifacts", "GetRetention", wire.GetRetentionRequest(run=self._run_id))
            except RunspineError as error:
                problem("The files cannot be shown now", str(error))
                return
            self._retention(rules)
            if not found.artifacts:
                empty("No files yet", "Checkpoints, videos and models appear here once they are in S3.")
                return
            _videos([each for each in found.artifacts if each.kind == "video"])
            ui.label("Files").classes("rs-section")
            with ui.column().classes("rs-files"):
                for artifact in found.artifacts[:MOST]:
                    self._file(artifact)
            if found.total > MOST:
                ui.label(
                    f"{found.total - MOST:,} more; runspine artifacts list {self._run_id[:12]} has them all"
                ).classes("rs-quiet")

    def _retention(self, rules: wire.GetRetentionResponse) -> None:
        with ui.row().classes("items-center gap-3"):
            for status in rules.statuses:
                ui.label(retained_words(status)).classes("rs-retained")
            if self._visitor.person.may_run:
                ui.button("Prune now", icon="auto_delete", on_click=self._plan).props("flat dense")

    def _file(self, artifact: wire.Artifact) -> None:
        with ui.row().classes("rs-file"):
            integrity_badge(artifact)
            ui.label(artifact.kind).classes("rs-quiet rs-kind")
            ui.label(artifact.name or artifact.digest[:12]).classes("rs-file-name")
            ui.label(size(artifact.size)).classes("rs-quiet")
            if artifact.step:
                ui.label(f"step {artifact.step:,}").classes("rs-quiet")
            ui.label(f"{age(artifact.produced_at)} ago").classes("rs-quiet")
            ui.label(keeping_words(artifact)).classes("rs-quiet")
            ui.space()
            self._acts(artifact)

    def _acts(self, artifact: wire.Artifact) -> None:
        if artifact.keeping == wire.KEPT and artifact.integrity == wire.GOOD:
            _icon("download", f"Download {artifact.name}", lambda: ui.navigate.to(address(artifact)))
        if not self._visitor.person.may_run:
            return
        if artifact.keeping == wire.PRUNED:
            undo = wire.UndoPruneRequest(reference=artifact.digest)
            _icon("undo", f"Have {artifact.name} back", lambda: self._do("UndoPrune", undo, "It is back."))
        elif artifact.pinned:
            unpin = wire.UnpinRequest(reference=artifact.digest)
            _icon(
                "push_pin", f"Unpin {artifact.name}", lambda: self._do("Unpin", unpin, "Left to the rules.")
            )
        elif artifact.keeping == wire.KEPT:
            pin = wire.PinRequest(reference=artifact.digest, reason="from the web page")
            _icon(
                "o_push_pin",
                f"Pin {artifact.name}",
                lambda: self._do("Pin", pin, "Pinned: no rule removes it."),
            )

    async def _do(self, method: str, request: object, done: str) -> None:
        try:
            await self._visitor.access.ask("artifacts", method, request)
        except RunspineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        ui.notify(done, type="positive")
        await self._look()

    async def _plan(self) -> None:
        """Show what the rules would remove, then remove exactly that."""
        try:
            plan = await self._visitor.access.ask(
                "artifacts", "GetPrunePlan", wire.GetPrunePlanRequest(run=self._run_id), 60.0
            )
        except RunspineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        if not plan.items:
            ui.notify("No rule removes anything of this run.", type="info")
            return
        with ui.dialog() as dialog, ui.card():
            ui.label(f"Remove {len(plan.items)} files, {size(plan.freed_bytes)}?").classes("text-lg")
            for item in plan.items[:20]:
                ui.label(f"{item.artifact.name} – {item.rule}").classes("rs-quiet")
            ui.label("They can be had back for a while.").classes("rs-quiet")
            with ui.row():
                ui.button("Keep them", on_click=lambda: dialog.submit(False)).props("flat autofocus")
                ui.button("Prune", on_click=lambda: dialog.submit(True)).props("color=negative")
        if await dialog:
            await self._do("Prune", wire.PruneRequest(run=self._run_id, token=plan.token), "Pruned.")


def _videos(videos: list[wire.Artifact]) -> None:
    shown = [each for each in videos if each.keeping == wire.KEPT and each.integrity == wire.GOOD]
    if not shown:
        return
    ui.label("Videos").classes("rs-section")
    with ui.element("div").classes("rs-cards"):
        for artifact in shown[-MOST_VIDEOS:]:
            with ui.card().classes("rs-card rs-tile"):
                ui.video(address(artifact)).classes("w-full").props('preload="metadata"')
                ui.label(artifact.name).classes("rs-quiet")


def address(artifact: wire.Artifact) -> str:
    """Where the page hands the file out."""
    return f"/api/artifacts/{artifact.digest}/{quote(artifact.name.rpartition('/')[2] or 'file')}"


def _icon(icon: str, label: str, act: object) -> None:
    ui.button(icon=icon, on_click=act).props("flat dense round").props["aria-label"] = label  # type: ignore[arg-type]
