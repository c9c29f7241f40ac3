"""The head of a run's page: phase, figures, progress and actions."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from runspine.domain.lineage import describe_fork, fork_of
from runspine.domain.run import ENDED
from runspine.errors import RunspineError
from runspine.ids import new_ulid
from runspine.services.dashboard.pages.checkpoints.evaluate_dialog import open_evaluate_dialog
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.spec.plain import enum_word
from runspine.text.facts import agent_returns_text
from runspine.text.values import number, span
from runspine.wire.v1.artifacts_pb2 import ListCheckpointsRequest
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.trainer_pb2 import CancelRequest, GetResponse, ResubmitRequest


class RunHead:
    def __init__(self, context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
        self._context = context
        self._visitor = visitor
        self._run, self._progress = answer.run, answer.progress
        # One per page: pressing Resubmit twice submits once.
        self._key = new_ulid()

    def draw(self) -> None:
        with ui.row().classes("rs-run-head"):
            with ui.column().classes("rs-run-title"):
                with ui.row().classes("items-center gap-3"):
                    self._badge = ui.label().classes("rs-badge")
                    ui.label(self._run.name).classes("rs-run-name")
                spec = self._run.spec
                details = [spec.env, spec.algo, f"runner {spec.runner}", self._run.id]
                ui.label(" · ".join(each for each in details if each)).classes("rs-quiet")
                if point := fork_of(spec):
                    ui.link(f"forked from {describe_fork(spec)}", f"/run/{point.run_id}?tab=episodes")
                self._reason = ui.label().classes("rs-reason")
            ui.space()
            if self._visitor.person.may_run:
                self._buttons()
        with ui.row().classes("rs-figures"):
            self._figures = {
                name: _figure(name) for name in ("Step", "Return", "Steps/s", "Episodes", "Time", "Attempt")
            }
        with ui.element("div").classes("rs-track rs-run-track").props('aria-hidden="true"'):
            self._bar = ui.element("div").classes("rs-fill rs-run-fill")
        self._refresh()
        self._context.refresher.every(0.5, self._refresh)

    def _buttons(self) -> None:
        self._cancel = ui.button("Cancel", icon="stop_circle", on_click=self._open_cancel_dialog).props(
            "flat dense no-caps color=negative"
        )
        ui.button("Resubmit", icon="replay", on_click=self._resubmit).props("flat dense no-caps")
        ui.button(
            "Fork", icon="call_split", on_click=lambda: ui.navigate.to(f"/new?from={self._run.id}")
        ).props("flat dense no-caps")
        ui.button("Evaluate", icon="speed", on_click=self._open_evaluate_dialog).props("flat dense no-caps")

    async def _open_evaluate_dialog(self) -> None:
        """Evaluate the best checkpoint of the run, else its newest."""
        request = ListCheckpointsRequest(run=self._run.id, page_size=1)
        try:
            found = await self._visitor.access.call("artifacts", "ListCheckpoints", request)
        except RunspineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        if not found.cards:
            ui.notify("This run has no checkpoint yet.", type="info")
            return
        await open_evaluate_dialog(self._visitor, found.cards[0])

    def _refresh(self) -> None:
        entry = self._context.runs.table.get(self._run.id)
        if entry is not None:
            self._run, self._progress = entry.run, entry.progress
        run, progress = self._run, self._progress
        phase = enum_word(Phase.DESCRIPTOR, run.phase)
        self._badge.set_text(phase)
        self._badge.classes(replace=f"rs-badge rs-{phase}")
        self._reason.set_text(run.reason)
        self._reason.set_visibility(bool(run.reason))
        for name, text in figures(run, progress, time.time()).items():
            self._figures[name].set_text(text)
        total = run.spec.total_steps or progress.total_steps
        part = min(1.0, (progress.step or run.counts.steps) / total) if total else 0.0
        self._bar.style(f"width: {part:.1%}")
        self._bar.classes(replace=f"rs-fill rs-run-fill rs-fill-{phase}")
        if self._visitor.person.may_run:
            self._cancel.set_enabled(run.phase not in ENDED)

    async def _open_cancel_dialog(self) -> None:
        with ui.dialog() as dialog, ui.card():
            ui.label("Cancel this run?").classes("text-lg")
            reason = ui.input("Reason (stored in the log)").classes("w-full").props("autofocus")
            with ui.row():
                ui.button("Keep running", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Cancel it", on_click=lambda: dialog.submit(True)).props("color=negative")
        if await dialog:
            request = CancelRequest(run_id=self._run.id, reason=reason.value or "")
            await self._call("Cancel", request, "Cancellation requested.")

    async def _resubmit(self) -> None:
        request = ResubmitRequest(run_id=self._run.id, idempotency_key=self._key)
        answer = await self._call("Resubmit", request, "Resubmitted.")
        if answer is not None:
            ui.navigate.to(f"/run/{answer.run.id}")

    async def _call(self, method: str, request: object, done: str) -> Any:
        try:
            answer = await self._visitor.access.call("trainer", method, request)
        except RunspineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return None
        ui.notify(done, type="positive")
        return answer


def figures(run: Run, progress: Progress, now: float) -> dict[str, str]:
    """The figures of the head, as text."""
    total = run.spec.total_steps or progress.total_steps
    step = number(progress.step or run.counts.steps)
    started, ended = run.started_at / 1e6, run.ended_at / 1e6
    return {
        "Step": f"{step} / {number(total)}" if total else step,
        "Return": _return(progress),
        "Steps/s": number(round(progress.steps_per_second)) if progress.steps_per_second else "–",
        "Episodes": number(progress.episodes or run.counts.episodes),
        "Time": span((ended or now) - started) if started else "–",
        "Attempt": str(run.attempt),
    }


def _return(progress: Progress) -> str:
    if progress.HasField("mean_return"):
        return number(progress.mean_return)
    return agent_returns_text(progress, most=2) or "–"


def _figure(name: str) -> ui.label:
    with ui.column().classes("rs-figure"):
        ui.label(name).classes("rs-figure-name")
        return ui.label("–").classes("rs-figure-value")
