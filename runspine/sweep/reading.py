"""The runs of a sweep, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runspine.client import Client
from runspine.sweep.plan import Plan
from runspine.sweep.score import Score
from runspine.sweep.telling import Scores
from runspine.telemetry_reader import TelemetryReader
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import ListRequest, RunSummary


def runs_of(client: Client, sweep_id: str) -> list[RunSummary]:
    """Every run with the label of the sweep."""
    pages = client.pages(ListRequest(labels={"sweep": sweep_id}, page_size=500))
    return [summary for page in pages for summary in page.runs]


def read_runs(client: Client, sweep_id: str) -> tuple[list[Run], Callable[[Plan], Mapping[str, Score]]]:
    """The runs, and a way to their scores once it is known what is measured."""
    summaries = [summary for summary in runs_of(client, sweep_id) if not summary.run.parent]

    def scores_of(plan: Plan) -> Mapping[str, Score]:
        scores = Scores(TelemetryReader(client), plan)
        for summary in summaries:
            scores.look(summary.run, summary.progress.step)
        return scores.known

    return [summary.run for summary in summaries], scores_of
