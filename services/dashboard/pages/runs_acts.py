"""What can be done with the runs that are ticked: compare, tag, cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from runspine.errors import RunspineError
from runspine.wire.v1.trainer_pb2 import CancelRequest, SetLabelsRequest
from services.dashboard.pages.desk import Visitor


class RunsActs:
    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self.grid: ui.aggrid | None = None

    def draw(self) -> None:
        ui.button("Compare", icon="stacked_line_chart", on_click=self._compare).props("flat dense no-caps")
        if self._visitor.person.may_run:
            ui.button("Tag", icon="label", on_click=self._ask_tag).props("flat dense no-caps")
            ui.button("Cancel", icon="stop_circle", on_click=self._ask_cancel).props("flat dense no-caps")
            ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/new")).props(
                "unelevated dense no-caps"
            )

    async def _chosen(self) -> list[dict[str, Any]]:
        assert self.grid is not None
        rows = await self.grid.get_selected_rows()
        if not rows:
            ui.notify("Select runs first: tick them in the table.", type="info")
        return rows

    async def _compare(self) -> None:
        rows = await self._chosen()
        if rows:
            ui.navigate.to(f"/compare?{urlencode([('run', row['id']) for row in rows])}")

    async def _ask_cancel(self) -> None:
        rows = await self._chosen()
        if not rows:
            return
        with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
            ui.label(f"Cancel {_runs(len(rows))}?").classes("text-lg")
            reason = ui.input("Reason (kept on the log)").classes("w-full").props("autofocus")
            with ui.row():
                ui.button("Keep running", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Cancel them", on_click=lambda: dialog.submit(True)).props("color=negative")
        if await dialog:
            said = str(reason.value or "")
            await self._each(rows, "Cancel", lambda row: CancelRequest(run_id=row["id"], reason=said))

    async def _ask_tag(self) -> None:
        rows = await self._chosen()
        if not rows:
            return
        with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
            ui.label(f"Tag {_runs(len(rows))}").classes("text-lg")
            key = ui.input("Label").classes("w-full").props("autofocus")
            value = ui.input("Value (empty removes it)").classes("w-full")
            with ui.row():
                ui.button("Back", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Tag", on_click=lambda: dialog.submit(bool(key.value)))
        if await dialog:
            labels = {str(key.value): str(value.value or "")}
            await self._each(rows, "SetLabels", lambda row: SetLabelsRequest(run_id=row["id"], labels=labels))

    async def _each(
        self, rows: list[dict[str, Any]], method: str, request: Callable[[dict[str, Any]], object]
    ) -> None:
        refused = []
        for row in rows:
            try:
                await self._visitor.access.ask("trainer", method, request(row))
            except RunspineError as error:
                refused.append(f"{row['name']}: {error}")
        if refused:
            ui.notify("\n".join(refused[:5]), type="warning", multi_line=True, classes="rs-lines")
        else:
            ui.notify(f"Done for {_runs(len(rows))}.", type="positive")


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
