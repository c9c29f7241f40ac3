"""Actions on the ticked runs: compare, tag, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import GenericEventArguments

from runspine.errors import RunspineError
from runspine.services.dashboard.edges.metric_queries import MAX_COMPARED_RUNS
from runspine.services.dashboard.pages.elements.context import Visitor
from runspine.wire.v1.trainer_pb2 import CancelRequest, SetLabelsRequest

# Calls for ticked runs that are made at the same time.
CALLS_AT_ONCE = 8
# Refusals that a notice names.
MAX_REASONS = 5


class TickedRun(NamedTuple):
    id: str
    name: str


class RunActions:
    """Buttons whose browser side sends the ticked runs with the click: the server never asks for them."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor

    def draw(self) -> None:
        self._button("Compare", "stacked_line_chart", self._compare)
        if self._visitor.person.may_run:
            self._button("Tag", "label", self._open_tag_dialog)
            self._button("Cancel", "stop_circle", self._open_cancel_dialog)
            ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/new")).props(
                "unelevated dense no-caps"
            )

    def _button(self, text: str, icon: str, act: Callable[[list[TickedRun]], Awaitable[None]]) -> None:
        async def clicked(event: GenericEventArguments) -> None:
            runs = [TickedRun(str(run_id), str(name)) for run_id, name in event.args]
            if runs:
                await act(runs)
            else:
                ui.notify("No runs selected: tick them in the table first.", type="info")

        button = ui.button(text, icon=icon).props("flat dense no-caps")
        button.on("click", clicked, js_handler="() => emit(rs.selected())")

    async def _compare(self, runs: list[TickedRun]) -> None:
        if len(runs) > MAX_COMPARED_RUNS:
            ui.notify(
                f"{len(runs)} runs cannot be compared at once; tick at most {MAX_COMPARED_RUNS}.",
                type="warning",
            )
            return
        ui.navigate.to(f"/compare?{urlencode([('run', run.id) for run in runs])}")

    async def _open_cancel_dialog(self, runs: list[TickedRun]) -> None:
        with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
            ui.label(f"Cancel {_runs(len(runs))}?").classes("text-lg")
            reason = ui.input("Reason (stored in the log)").classes("w-full").props("autofocus")
            with ui.row():
                ui.button("Keep running", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Cancel them", on_click=lambda: dialog.submit(True)).props("color=negative")
        if await dialog:
            text = str(reason.value or "")
            await self._each(runs, "Cancel", lambda run: CancelRequest(run_id=run.id, reason=text))

    async def _open_tag_dialog(self, runs: list[TickedRun]) -> None:
        with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
            ui.label(f"Tag {_runs(len(runs))}").classes("text-lg")
            key = ui.input("Label").classes("w-full").props("autofocus")
            value = ui.input("Value (empty removes it)").classes("w-full")
            with ui.row():
                ui.button("Back", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Tag", on_click=lambda: dialog.submit(bool(key.value)))
        if await dialog:
            labels = {str(key.value): str(value.value or "")}
            await self._each(runs, "SetLabels", lambda run: SetLabelsRequest(run_id=run.id, labels=labels))

    async def _each(self, runs: list[TickedRun], method: str, request: Callable[[TickedRun], object]) -> None:
        refused: list[str] = []
        waiting, done = list(reversed(runs)), 0
        progress = ui.notification(f"0 of {_runs(len(runs))}…", spinner=True, timeout=None)

        async def work() -> None:
            nonlocal done
            while waiting:
                run = waiting.pop()
                try:
                    await self._visitor.access.call("trainer", method, request(run))
                except RunspineError as error:
                    refused.append(f"{run.name}: {error}")
                done += 1
                progress.message = f"{done} of {_runs(len(runs))}…"

        try:
            await asyncio.gather(*(work() for _ in range(CALLS_AT_ONCE)))
        finally:
            progress.dismiss()
        ui.notify(result_text(len(runs), refused), type="warning" if refused else "positive",
                  multi_line=True, classes="rs-lines")  # fmt: skip


def result_text(count: int, refused: Sequence[str]) -> str:
    """What became of an action on `count` runs."""
    if not refused:
        return f"Done for {_runs(count)}."
    head = f"Done for {count - len(refused)} of {_runs(count)}; refused for {len(refused)}:"
    more = [f"… and {len(refused) - MAX_REASONS} more"] if len(refused) > MAX_REASONS else []
    return "\n".join([head, *refused[:MAX_REASONS], *more])


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
