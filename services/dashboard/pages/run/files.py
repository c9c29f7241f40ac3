"""The files tab: videos and other artifacts of a run, with integrity and retention."""

from __future__ import annotations

from nicegui import ui

from runspine.domain.artifact_kinds import VIDEO
from runspine.errors import RunspineError
from runspine.services.dashboard.core.artifact_address import artifact_url
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.integrity import integrity_badge, retained_text
from runspine.services.dashboard.pages.elements.notices import empty, problem
from runspine.text.artifacts import keeping_text
from runspine.text.values import age, size
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.trainer_pb2 import GetResponse

PAGE_SIZE = 500
# Files that are listed; `runspine artifacts list` lists all.
MAX_FILES = 200
MAX_VIDEOS = 12
FOLLOW_SECONDS = 1.0


async def draw_files(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    await FilesTab(context, visitor, answer.run.id).draw()


class FilesTab:
    def __init__(self, context: PageContext, visitor: Visitor, run_id: str) -> None:
        self._context = context
        self._visitor = visitor
        self._run_id = run_id
        # The position of the run's newest fact when the files were last listed.
        self._drawn = 0

    async def draw(self) -> None:
        self._rules = ui.row().classes("items-center gap-3")
        self._videos = VideoCards()
        self._body = ui.column().classes("w-full")
        await self._refresh()
        self._context.refresher.every(FOLLOW_SECONDS, self._follow, at_once=False)

    async def _follow(self) -> None:
        """List the files again when the log has a new fact about them."""
        if self._context.runs.artifacts.of(self._run_id) != self._drawn:
            await self._refresh()

    async def _refresh(self) -> None:
        call = self._visitor.access.call
        request = wire.ListArtifactsRequest(run=self._run_id, with_pruned=True, page_size=PAGE_SIZE)
        position = self._context.runs.artifacts.of(self._run_id)
        try:
            found = await call("artifacts", "List", request)
            rules = await call("artifacts", "GetRetention", wire.GetRetentionRequest(run=self._run_id))
        except RunspineError as error:
            self._body.clear()
            with self._body:
                problem("The files cannot be loaded", str(error))
            return
        self._drawn = position
        self._retention(rules)
        self._videos.show([each for each in found.artifacts if each.kind == VIDEO])
        self._body.clear()
        with self._body:
            if not found.artifacts:
                empty("No files yet", "Checkpoints, videos and models appear here once they are in S3.")
                return
            ui.label("Files").classes("rs-section")
            with ui.column().classes("rs-files"):
                for artifact in found.artifacts[:MAX_FILES]:
                    self._file(artifact)
            if found.total > MAX_FILES:
                more = f"{found.total - MAX_FILES:,} more: runspine artifacts list {self._run_id[:12]}"
                ui.label(more).classes("rs-quiet")

    def _retention(self, rules: wire.GetRetentionResponse) -> None:
        self._rules.clear()
        with self._rules:
            for status in rules.statuses:
                ui.label(retained_text(status)).classes("rs-retained")
            if self._visitor.person.may_run:
                ui.button("Prune now", icon="auto_delete", on_click=self._open_prune_dialog).props(
                    "flat dense"
                )

    def _file(self, artifact: wire.Artifact) -> None:
        with ui.row().classes("rs-file"):
            integrity_badge(artifact)
            ui.label(artifact.kind).classes("rs-quiet rs-kind")
            ui.label(artifact.name or artifact.digest[:12]).classes("rs-file-name")
            ui.label(size(artifact.size)).classes("rs-quiet")
            if artifact.step:
                ui.label(f"step {artifact.step:,}").classes("rs-quiet")
            ui.label(f"{age(artifact.produced_at)} ago").classes("rs-quiet")
            ui.label(keeping_text(artifact)).classes("rs-quiet")
            ui.space()
            self._actions(artifact)

    def _actions(self, artifact: wire.Artifact) -> None:
        if artifact.keeping == wire.KEPT and artifact.integrity == wire.GOOD:
            _icon("download", f"Download {artifact.name}", lambda: ui.navigate.to(artifact_url(artifact)))
        if not self._visitor.person.may_run:
            return
        if artifact.keeping == wire.PRUNED:
            undo = wire.UndoPruneRequest(reference=artifact.digest)
            _icon("undo", f"Restore {artifact.name}", lambda: self._do("UndoPrune", undo, "Restored."))
        elif artifact.pinned:
            unpin = wire.UnpinRequest(reference=artifact.digest)
            _icon("push_pin", f"Unpin {artifact.name}", lambda: self._do("Unpin", unpin, "Unpinned."))
        elif artifact.keeping == wire.KEPT:
            pin = wire.PinRequest(reference=artifact.digest, reason="from the web page")
            _icon(
                "o_push_pin",
                f"Pin {artifact.name}",
                lambda: self._do("Pin", pin, "Pinned: no retention rule removes it."),
            )

    async def _do(self, method: str, request: object, done: str) -> None:
        try:
            await self._visitor.access.call("artifacts", method, request)
        except RunspineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        ui.notify(done, type="positive")
        await self._refresh()

    async def _open_prune_dialog(self) -> None:
        """Show what the rules would remove, then remove exactly that."""
        try:
            plan = await self._visitor.access.call(
                "artifacts", "GetPrunePlan", wire.GetPrunePlanRequest(run=self._run_id), 60.0
            )
        except RunspineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        if not plan.items:
            ui.notify("No retention rule applies to a file of this run.", type="info")
            return
        with ui.dialog() as dialog, ui.card():
            ui.label(f"Remove {len(plan.items)} files, {size(plan.freed_bytes)}?").classes("text-lg")
            for item in plan.items[:20]:
                ui.label(f"{item.artifact.name} – {item.rule}").classes("rs-quiet")
            ui.label("They can be restored until the grace period ends.").classes("rs-quiet")
            with ui.row():
                ui.button("Keep them", on_click=lambda: dialog.submit(False)).props("flat autofocus")
                ui.button("Prune", on_click=lambda: dialog.submit(True)).props("color=negative")
        if await dialog:
            await self._do("Prune", wire.PruneRequest(run=self._run_id, token=plan.token), "Pruned.")


class VideoCards:
    """The newest videos. A card stays as it is while its video is kept, so that one that plays goes on."""

    def __init__(self) -> None:
        self._title = ui.label("Videos").classes("rs-section")
        self._row = ui.element("div").classes("rs-cards")
        self._cards: dict[str, ui.card] = {}

    def show(self, videos: list[wire.Artifact]) -> None:
        good = [each for each in videos if each.keeping == wire.KEPT and each.integrity == wire.GOOD]
        shown = {artifact.digest: artifact for artifact in good[-MAX_VIDEOS:]}
        self._title.set_visibility(bool(shown))
        for digest in self._cards.keys() - shown.keys():
            self._cards.pop(digest).delete()
        for digest, artifact in shown.items():
            if digest in self._cards:
                continue
            with self._row, ui.card().classes("rs-card rs-tile") as card:
                ui.video(artifact_url(artifact)).classes("w-full").props('preload="metadata"')
                ui.label(artifact.name).classes("rs-quiet")
            self._cards[digest] = card


def _icon(icon: str, label: str, act: object) -> None:
    ui.button(icon=icon, on_click=act).props("flat dense round").props["aria-label"] = label  # type: ignore[arg-type]
