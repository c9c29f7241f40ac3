"""The parameters tab: the spec as a run file, the trainer's command, and what differs from another run."""

from __future__ import annotations

import difflib
import shlex

from nicegui import ui

from runspine.domain.lineage import readable
from runspine.errors import RunspineError
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.plain_text import block, difference
from runspine.services.dashboard.pages.run.differences import draw_differences
from runspine.spec.run_file import spec_yaml
from runspine.wire.v1.trainer_pb2 import GetRequest, GetResponse


async def draw_config(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    yaml = spec_yaml(answer.run.spec)
    with ui.row().classes("rs-bar"):
        ui.button(
            "Download YAML",
            icon="download",
            on_click=lambda: ui.download.content(yaml, f"{answer.run.name}.yaml"),
        ).props("flat dense")
        other = (
            ui.input("Compare with run (id or name)").props("dense outlined clearable").classes("rs-search")
        )
    block(spec_yaml(readable(answer.run.spec)))
    if answer.attempts:
        ui.label("Command").classes("rs-section")
        block(shlex.join(answer.attempts[-1].command))
    result = ui.column().classes("w-full")

    async def compare() -> None:
        result.clear()
        if not other.value:
            return
        with result:
            try:
                found = await visitor.access.call("trainer", "Get", GetRequest(run_id=other.value))
            except RunspineError as error:
                ui.label(str(error)).classes("rs-bad")
                return
            lines = difflib.unified_diff(
                spec_yaml(readable(found.run.spec)).splitlines(),
                spec_yaml(readable(answer.run.spec)).splitlines(),
                found.run.name,
                answer.run.name,
                lineterm="",
                n=1,
            )
            ui.label(f"Difference to {found.run.name}").classes("rs-section")
            difference(list(lines) or ["no difference"])
            await draw_differences(visitor, found, answer)

    other.on("keydown.enter", compare)
