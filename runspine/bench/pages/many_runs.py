"""The list of many runs as the page's client asks for it. `python -m runspine.bench.pages.many_runs`."""

from __future__ import annotations

import asyncio
import gzip
import resource
import time
from types import SimpleNamespace
from typing import Any

from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.core.runs.view import DEFAULT_SORT
from runspine.services.dashboard.edges.api.run_views import SharedViews
from runspine.services.dashboard.edges.api.runs import DEFAULT_COLUMNS, RunsApi
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED, Run
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from runspine.wire.v1.trainer_pb2 import RunSummary

RUNS, PARAMS, CHANGES = 100_000, 12, 1000
ROWS = 60
START = 1_700_000_000_000_000
QUERIES = (("", DEFAULT_SORT), ("state:failed p3<3.5 return>200", "-return"), ("ppo", "name"))


def summary(number: int, position: int = 0) -> RunSummary:
    params = {f"p{at}": Value(number=number / RUNS + at) for at in range(PARAMS)}
    spec = RunSpec(env="CartPole-v1", algo=("ppo", "dqn")[number % 2], runner="builtin", params=params)
    spec.seed, spec.total_steps = number % 10, RUNS
    run = Run(
        id=f"{number:026}", name=f"CartPole-v1__ppo__{number % 10}__{number}", spec=spec, position=position,
        phase=COMPLETED if number % 7 else FAILED, submitted_at=START + number,
    )  # fmt: skip
    return RunSummary(run=run, progress=Progress(mean_return=number * 37 % 501, step=number % RUNS))


class LoopHold:
    """The longest CPU time for which the event loop served nobody else."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - before)


async def show(api: RunsApi, what: str, query: str, sort: str, first: int = 0, since: int = 0) -> None:
    began = time.process_time()
    answer = await api.page(query, sort, first, ROWS, DEFAULT_COLUMNS, since)
    took, body = time.process_time() - began, bytes(answer.body)
    packed = len(gzip.compress(body, 5))
    print(f"  {what}: {took * 1000:.1f} ms, {len(body):,} B, compressed {packed:,} B")


async def measure() -> None:
    table = RunTable()
    for number in range(RUNS):
        table.apply_summary(summary(number))
    nothing: Any = SimpleNamespace()
    api, hold = RunsApi(nothing, table, SharedViews(table), nothing, "bench"), LoopHold()
    watching = asyncio.create_task(hold.watch())
    for query, sort in QUERIES:
        print(f"{query!r} by {sort}")
        hold.longest = 0.0
        await show(api, "first page of a new view", query, sort)
        print(f"  others waited at most {hold.longest * 1000:.1f} ms")
        await show(api, "first page again", query, sort)
        await show(api, "page at row 20,000", query, sort, first=20_000)
        version = table.version
        for number in range(CHANGES):
            table.apply_summary(summary(number, position=version))
        await show(api, f"first page after {CHANGES:,} changes", query, sort, since=version)
    watching.cancel()
    print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    asyncio.run(measure())
