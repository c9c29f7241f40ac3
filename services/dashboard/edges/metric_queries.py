"""Telemetry queries that several pages share: series names, sparklines, comparisons."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from runspine.compare.comparison import Comparison
from runspine.compare.references import MAX_DATASETS, DatasetReturns, dataset_returns, references
from runspine.domain.run import ENDED
from runspine.errors import InvalidError, RunspineError
from runspine.rpc.telemetry_client import MAX_POINTS
from runspine.services.dashboard.core.comparison import compare_runs
from runspine.services.dashboard.edges.backend import Access
from runspine.wire.v1.artifacts_pb2 import GetArtifactRequest
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.telemetry_pb2 import (
    ENV_STEP,
    EPISODE,
    TIME,
    Axis,
    ListSeriesRequest,
    QueryMetricsRequest,
    Series,
)
from runspine.wire.v1.trainer_pb2 import GetRequest

AXES = {"step": ENV_STEP, "time": TIME, "episode": EPISODE}
# Metrics that hold episode returns, the most common first.
RETURN_METRICS = ("episode/return", "charts/episodic_return")
MAX_COMPARED_RUNS = 64
# Of a run that is active, whose comparison is repeated; of ended ones as many as the command line reads.
MAX_ACTIVE_POINTS = 2000


def parse_axis(name: str) -> Axis:
    if name not in AXES:
        raise InvalidError(f"axis {name!r} is not one of {', '.join(AXES)}")
    return AXES[name]


async def list_series_names(access: Access, run_id: str) -> list[str]:
    answer = await access.call("telemetry", "ListSeries", ListSeriesRequest(run_id=run_id))
    return [one.name for one in answer.series]


async def spark_points(access: Access, run_id: str, points: int) -> list[float]:
    """Points of a run's sparkline of returns; empty when telemetry cannot be reached."""
    try:
        message = QueryMetricsRequest(run_id=run_id, names=RETURN_METRICS, axis=ENV_STEP, max_points=points)
        answer = await access.call("telemetry", "QueryMetrics", message)
    except RunspineError:
        return []
    best: Series = max(answer.series, key=lambda one: one.points, default=Series())
    return list(best.y)[-2 * points :]


async def get_runs(access: Access, names: Sequence[str]) -> list[Run]:
    if len(names) > MAX_COMPARED_RUNS:
        raise InvalidError(
            f"{len(names)} runs cannot be compared at once; choose at most {MAX_COMPARED_RUNS}"
        )
    answers = [await access.call("trainer", "Get", GetRequest(run_id=name)) for name in dict.fromkeys(names)]
    return [answer.run for answer in answers]


async def query_comparison(
    access: Access,
    names: Sequence[str],
    metric: str,
    axis: str,
    statistic: str,
    by: Sequence[str],
    each: bool,
) -> Comparison:
    runs = await get_runs(access, names)
    found: dict[str, Series] = {}
    for run in runs:
        message = QueryMetricsRequest(
            run_id=run.id,
            names=[metric],
            axis=parse_axis(axis),
            max_points=MAX_POINTS if run.phase in ENDED else MAX_ACTIVE_POINTS,
        )
        answer = await access.call("telemetry", "QueryMetrics", message)
        if answer.series:
            found[run.id] = answer.series[0]
    lines = references(await _dataset_returns(access, runs), metric, {})
    return await asyncio.to_thread(
        compare_runs, runs, found, axis=axis, statistic=statistic, by=by, each=each, lines=lines
    )


async def _dataset_returns(access: Access, runs: Sequence[Run]) -> list[DatasetReturns]:
    """Returns of the datasets that the runs learned from; those that are gone are left out."""
    named = {run.spec.dataset.digest: run.spec.dataset.name for run in runs if run.spec.dataset.digest}
    found = []
    for digest, name in list(named.items())[:MAX_DATASETS]:
        with contextlib.suppress(RunspineError):
            answer = await access.call("artifacts", "Get", GetArtifactRequest(reference=digest))
            found.append(dataset_returns(name or digest[:12], answer.artifact.meta))
    return found
