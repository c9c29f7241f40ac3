"""Ways on from a run: parent, checkpoints, comparison, and other tools where they have something of it."""

from __future__ import annotations

import re
from urllib.parse import quote

from nicegui import ui

from runspine.errors import RunspineError
from runspine.wire.v1.artifacts_pb2 import ListArtifactsRequest
from runspine.wire.v1.run_pb2 import Run
from services.dashboard.pages.desk import Visitor

# Only addresses of W&B itself become a link; what else a trainer says stays text.
WANDB = re.compile(r"https://(?:api\.)?wandb\.ai/[\w./-]+\Z")
TOOLS = ("tensorboard", "wandb")


def draw_links(visitor: Visitor, run: Run) -> None:
    with ui.row().classes("rs-links") as row:
        if run.parent:
            ui.link("forked from", f"/run/{quote(run.parent)}")
        ui.link("checkpoints", f"/checkpoints?run={quote(run.id)}")
        ui.link("compare", f"/compare?run={quote(run.id)}")

    async def add_tools() -> None:
        found = await _tools(visitor, run)
        with row:
            for text, target in found:
                if target:
                    ui.link(text, target, new_tab=True)
                else:
                    with ui.label(text).classes("rs-tool"):
                        ui.tooltip(f"runspine tensorboard {run.id[:12]}")

    # The page does not wait for what may be there.
    ui.timer(0.01, add_tools, once=True)


async def _tools(visitor: Visitor, run: Run) -> list[tuple[str, str]]:
    """TensorBoard when the run left event files, W&B when it says where it is."""
    found = []
    address = run.labels.get("wandb", "")
    if WANDB.match(address):
        found.append(("W&B", address))
    try:
        request = ListArtifactsRequest(run=run.id, kinds=TOOLS, page_size=50)
        answer = await visitor.access.ask("artifacts", "List", request, 5.0)
    except RunspineError:
        return found
    if any(artifact.kind == "tensorboard" for artifact in answer.artifacts):
        found.append(("TensorBoard: runspine tensorboard", ""))
    return found
