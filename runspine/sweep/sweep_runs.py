"""Reads the runs of a sweep and their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.sweep.plan import SweepPlan
from runspine.sweep.score import Score
from runspine.sweep.score_reader import ScoreReader
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import ListRequest, RunSummary


def runs_of(client: Client, sweep_id: str) -> list[RunSummary]:
    """All runs with the label of the sweep."""
    pages = client.pages(ListRequest(labels={"sweep": sweep_id}, page_size=500))
    return [summary for page in pages for summary in page.runs]


def read_runs(client: Client, sweep_id: str) -> tuple[list[Run], Callable[[SweepPlan], Mapping[str, Score]]]:
    """Return the runs, and a function that reads their scores for a plan."""
    summaries = [summary for summary in runs_of(client, sweep_id) if not summary.run.parent]

    def scores_of(plan: SweepPlan) -> Mapping[str, Score]:
        scores = ScoreReader(TelemetryClient(client), plan)
        for summary in summaries:
            scores.update(summary.run, summary.progress.step)
        return scores.known

    return [summary.run for summary in summaries], scores_of
