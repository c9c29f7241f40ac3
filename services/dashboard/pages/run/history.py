"""The history tab: submission, attempts with their outcomes, and the end, oldest first."""

from __future__ import annotations

from nicegui import ui

from runspine.domain.lineage import start_text
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.plain_text import block
from runspine.text.facts import counts_text, exit_text
from runspine.text.values import escaped_block, local_time, span
from runspine.wire.v1.run_pb2 import Attempt
from runspine.wire.v1.trainer_pb2 import GetResponse


async def draw_history(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    run = answer.run
    with ui.timeline(side="right").classes("rs-timeline"):
        _entry("Submitted", run.submitted_at, f"by {run.submitted_by}" if run.submitted_by else "")
        for attempt in answer.attempts:
            _attempt(run.id, attempt)
        if run.ended_at:
            _entry("Ended", run.ended_at, run.reason or counts_text(run.counts))


def _attempt(run_id: str, attempt: Attempt) -> None:
    details = f"on {attempt.worker_id}"
    if attempt.resumed_from.digest:
        details += f", {start_text(attempt.resumed_from, run_id)}"
    _entry(f"Attempt {attempt.number} started", attempt.started_at, details)
    if attempt.ended_at:
        took = span((attempt.ended_at - attempt.started_at) / 1e6)
        _entry(f"Attempt {attempt.number} ended after {took}", attempt.ended_at, exit_text(attempt.exited))
        if attempt.exited.stderr_tail:
            with ui.timeline_entry(title="Last lines of stderr"):
                block(escaped_block(attempt.exited.stderr_tail))


def _entry(title: str, at: int, text: str) -> None:
    with ui.timeline_entry(title=title, subtitle=local_time(at)):
        ui.label(text)
