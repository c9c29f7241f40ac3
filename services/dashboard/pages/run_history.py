"""The facts of a run, oldest first: what was asked, decided and observed, and why attempts ended."""

from __future__ import annotations

from nicegui import ui

from runspine.cli.facts import counts_words, exit_words
from runspine.cli.text import escaped_block, local_time, span
from runspine.wire.v1.run_pb2 import Attempt
from runspine.wire.v1.trainer_pb2 import GetResponse
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.plaintext import block


async def draw_history(desk: Desk, visitor: Visitor, answer: GetResponse) -> None:
    run = answer.run
    with ui.timeline(side="right").classes("rs-timeline"):
        _entry("Submitted", run.submitted_at, f"by {run.submitted_by}" if run.submitted_by else "")
        for attempt in answer.attempts:
            _attempt(attempt)
        if run.ended_at:
            _entry("Ended", run.ended_at, run.reason or counts_words(run.counts))


def _attempt(attempt: Attempt) -> None:
    begun = f"on {attempt.worker_id}"
    if attempt.resumed_from.digest:
        begun += f", from the checkpoint at step {attempt.resumed_from.step:,}"
    _entry(f"Attempt {attempt.number} began", attempt.started_at, begun)
    if attempt.ended_at:
        took = span((attempt.ended_at - attempt.started_at) / 1e6)
        _entry(f"Attempt {attempt.number} ended after {took}", attempt.ended_at, exit_words(attempt.exited))
        if attempt.exited.stderr_tail:
            with ui.timeline_entry(title="Last lines of stderr"):
                block(escaped_block(attempt.exited.stderr_tail))


def _entry(title: str, at: int, text: str) -> None:
    with ui.timeline_entry(title=title, subtitle=local_time(at)):
        ui.label(text)
