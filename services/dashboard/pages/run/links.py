"""Links of a run: parent, checkpoints, comparison, TensorBoard and W&B."""

from __future__ import annotations

import re
from urllib.parse import quote

from nicegui import ui

from runspine.domain.artifact_kinds import TENSORBOARD, WANDB
from runspine.errors import RunspineError
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.wire.v1.artifacts_pb2 import ListArtifactsRequest
from runspine.wire.v1.run_pb2 import Run

# Only addresses of W&B itself become a link; other text of a trainer does not.
WANDB_ADDRESS = re.compile(r"https://(?:api\.)?wandb\.ai/[\w./-]+\Z")
TOOLS = (TENSORBOARD, WANDB)
FOLLOW_SECONDS = 2.0


def draw_links(context: PageContext, visitor: Visitor, run: Run) -> None:
    with ui.row().classes("rs-links"):
        if run.parent:
            ui.link("forked from", f"/run/{quote(run.parent)}")
        ui.link("checkpoints", f"/checkpoints?run={quote(run.id)}")
        ui.link("compare", f"/compare?run={quote(run.id)}")

        # The page does not wait for optional links.
        ToolLinks(context, visitor, run).draw()


class ToolLinks:
    """Links to TensorBoard and W&B; they appear as the log has the run's event files and its address."""

    def __init__(self, context: PageContext, visitor: Visitor, run: Run) -> None:
        self._context = context
        self._visitor = visitor
        self._run = run
        # Positions of the newest facts of the run and of its artifacts when the links were drawn.
        self._drawn: tuple[int, int] | None = None

    def draw(self) -> None:
        self._row = ui.row().classes("rs-links")
        self._context.refresher.every(FOLLOW_SECONDS, self._follow)

    async def _follow(self) -> None:
        entry = self._context.runs.table.get(self._run.id)
        run = self._run if entry is None else entry.run
        positions = run.position, self._context.runs.artifacts.of(run.id)
        if positions == self._drawn:
            return
        found = await _tools(self._visitor, run)
        self._drawn = positions
        self._row.clear()
        with self._row:
            for text, target in found:
                if target:
                    ui.link(text, target, new_tab=True)
                else:
                    with ui.label(text).classes("rs-tool"):
                        ui.tooltip(f"runspine tensorboard {run.id[:12]}")


async def _tools(visitor: Visitor, run: Run) -> list[tuple[str, str]]:
    """TensorBoard if the run has event files, W&B if a label holds its address."""
    found = []
    address = run.labels.get("wandb", "")
    if WANDB_ADDRESS.match(address):
        found.append(("W&B", address))
    try:
        request = ListArtifactsRequest(run=run.id, kinds=TOOLS, page_size=50)
        answer = await visitor.access.call("artifacts", "List", request, 5.0)
    except RunspineError:
        return found
    if any(artifact.kind == TENSORBOARD for artifact in answer.artifacts):
        found.append(("TensorBoard: runspine tensorboard", ""))
    return found
