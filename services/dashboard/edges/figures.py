"""Questions to telemetry that several pages ask: usual metrics, small curves, comparisons."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from runspine.compare.comparison import Comparison
from runspine.errors import Invalid, RunspineError
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
from services.dashboard.core.comparing import compared
from services.dashboard.edges.backend import Access

AXES = {"step": ENV_STEP, "time": TIME, "episode": EPISODE}
# Where returns of episodes are found, the likeliest first.
RETURNS = ("episode/return", "charts/episodic_return")
MOST_RUNS = 64
COMPARED_POINTS = 2000


def axis_of(name: str) -> Axis:
    if name not in AXES:
        raise Invalid(f"axis {name!r} is none of {', '.join(AXES)}")
    return AXES[name]


async def series_names(access: Access, run_id: str) -> list[str]:
    answer = await access.ask("telemetry", "ListSeries", ListSeriesRequest(run_id=run_id))
    return [one.name for one in answer.series]


async def spark(access: Access, run_id: str, points: int) -> list[float]:
    """The course of a run's returns in a few numbers; empty when nobody knows it now."""
    try:
        message = QueryMetricsRequest(run_id=run_id, names=RETURNS, axis=ENV_STEP, max_points=points)
        answer = await access.ask("telemetry", "QueryMetrics", message)
    except RunspineError:
        return []
    best: Series = max(answer.series, key=lambda one: one.points, default=Series())
    return list(best.y)[-2 * points :]


async def runs_of(access: Access, names: Sequence[str]) -> list[Run]:
    if len(names) > MOST_RUNS:
        raise Invalid(f"{len(names)} runs are more than are compared at once; choose at most {MOST_RUNS}")
    answers = [await access.ask("trainer", "Get", GetRequest(run_id=name)) for name in dict.fromkeys(names)]
    return [answer.run for answer in answers]


async def comparison(
    access: Access,
    names: Sequence[str],
    metric: str,
    axis: str,
    statistic: str,
    by: Sequence[str],
    each: bool,
) -> Comparison:
    runs = await runs_of(access, names)
    found: dict[str, Series] = {}
    for run in runs:
        message = QueryMetricsRequest(
            run_id=run.id,
            names=[metric],
            axis=axis_of(axis),
            max_points=COMPARED_POINTS,
        )
        answer = await access.ask("telemetry", "QueryMetrics", message)
        if answer.series:
            found[run.id] = answer.series[0]
    return await asyncio.to_thread(compared, runs, found, statistic=statistic, by=by, each=each)
