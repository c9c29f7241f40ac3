"""How each cost grows: with runs, facts, points and workers."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import ray_jobs, tensorboard_reader
from bench.control import Caller, measure_restart
from bench.figures import Report, spread
from bench.telemetry import Durable, measure_durable
from bench.telemetry_durable import Asked, Bench
from bench.telemetry_query import measure_chart
from runspine.embedded import running_stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec

Tell = Callable[[str], None]
CLIENTS = 16
PATIENCE = 400.0


async def grow_runs(report: Report, sizes: Sequence[int], jobs: int, peers: str, tell: Tell) -> None:
    """So many runs that do nothing, submitted at once, to one worker with two slots."""
    together, each, listed = (
        report.curve("runs", f"runspine: {name}") for name in ("all done", "a run", "a page of the list")
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        async with running_stack(Path(scratch) / "runs", workers=1, slots=2) as stack:
            caller = Caller(stack)
            caller.life(RunSpec(runner="script", command=["true"]))
            for size in sizes:
                tell(f"{size:,} runs at once, until all are done")
                seconds, look = await asyncio.to_thread(_all_done, caller, size)
                together.append((size, seconds))
                each.append((size, seconds / size))
                listed.append((size, look))
                report.add(
                    f"{size:,} {'run' if size == 1 else 'runs'}, submitted at once → all done", seconds, "s",
                    beside=f"{size / seconds:.1f} runs/s; a page of the list {look * 1000:.1f} ms",
                )  # fmt: skip
    if jobs:
        tell(f"{jobs} jobs of Ray, until all are done")
        found = await asyncio.to_thread(ray_jobs.measure, peers, 1, jobs)
        if isinstance(found, str):
            report.add(f"{jobs} jobs of Ray → all done", float("nan"), "", beside=f"not measured: {found}")
            return
        beside = report.curve("runs", "Ray Jobs: all done")
        beside += [(1, found.done[0]), (jobs, found.together)]
        report.add(
            f"{jobs} jobs of Ray → all done",
            found.together,
            "s",
            beside=f"{jobs / found.together:.2f} jobs/s",
        )


def _all_done(caller: Caller, size: int) -> tuple[float, float]:
    """Seconds until the last of them is done, and for one page of the list then."""
    label = f"g{size}"
    spec = RunSpec(runner="script", command=["true"], labels={"size": label})
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda _: caller.submit(spec), range(size)))
    done = wire.ListRequest(page_size=1, phases=[COMPLETED], labels={"size": label})
    while caller.stub.List(done, metadata=caller.auth).total < size:
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError(f"{size} runs are not done after {PATIENCE:.0f} s")
        time.sleep(0.005 if size < 100 else 0.05)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(10):
        caller.stub.List(wire.ListRequest(page_size=50), metadata=caller.auth)
    return seconds, (time.perf_counter() - began) / 10


async def grow_facts(report: Report, sizes: Sequence[int], tell: Tell) -> None:
    """An orchestrator started on logs of these lengths."""
    cold, warm = (report.curve("facts", name) for name in ("the whole log is read", "from the snapshot"))
    memory, disk = report.curve("facts memory", "memory"), report.curve("facts memory", "log on the disk")
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
            found = await measure_restart(report, Path(scratch) / "long", size, tell)
        cold.append((size, found.cold))
        warm.append((size, found.warm))
        memory.append((size, found.memory_mib))
        disk.append((size, found.log_bytes / (1 << 20)))


async def grow_points(report: Report, sizes: Sequence[int], tell: Tell) -> None:
    """A series of these lengths charted by a service, and by a TensorBoard, that has never seen it."""
    opened, first, zoom, board = (
        report.curve("points", name)
        for name in (
            "runspine: start and chart", "runspine: chart", "runspine: zoom to raw points",
            "TensorBoard: start and chart",
        )
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        for size in sizes:
            async with running_stack(Path(scratch) / str(size), only={"nats", "s3"}) as stack:
                found = await measure_chart(report, stack, size, tell)
            opened.append((size, found.opened))
            first.append((size, found.first))
            zoom.append((size, found.zoom))
            group = f"open {size}"
            report.add(
                f"a run of {size:,} points opened, runspine", found.opened, "s", group=group, who="runspine",
                beside="2 of 2 spikes on the chart; every zoom down to single points is exact",
            )  # fmt: skip
            if size <= tensorboard_reader.LONGEST:
                tell(f"TensorBoard opens {size:,} points")
                seen = await asyncio.to_thread(tensorboard_reader.opened, Path(scratch) / f"tb{size}", size)
                if isinstance(seen, tensorboard_reader.Opened):
                    board.append((size, seen.seconds))
                _report_board(report, seen, size, group)


def _report_board(report: Report, seen: tensorboard_reader.Opened | str, size: int, group: str) -> None:
    what = f"a run of {size:,} points opened, TensorBoard"
    if isinstance(seen, str):
        report.add(what, float("nan"), "", beside=f"not measured: {seen}", group=group, who="TensorBoard")
        return
    report.add(
        what, seen.seconds, "s", group=group, who="TensorBoard",
        beside=f"{seen.spikes} of 2 spikes on the chart; it keeps {seen.shown:,} points, zoomed or not",
    )  # fmt: skip


async def grow_workers(report: Report, sizes: Sequence[int], steps: int, rounds: int, tell: Tell) -> None:
    """Workers with one trainer each, so many steps in all: how many are durable in a second."""
    rate, cost = report.curve("workers", "all together"), report.curve("workers cost", "CPU a step")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        folder = Path(scratch)
        async with running_stack(folder / "stack", workers=max(sizes), slots=1) as stack:
            bench = Bench(stack, folder / "trainers")
            for size in sizes:
                found = Durable()
                for _ in range(rounds):
                    tell(f"{size} workers with a trainer each, {steps:,} steps in all")
                    await measure_durable(bench, Asked(size, steps // size), found)
                got = spread(found.rates)
                rate.append((size, got["value"]))
                cost.append((size, spread(found.costs)["value"]))
                report.add(
                    f"steps durable, {size} {'worker' if size == 1 else 'workers'}", unit="steps/s", **got,
                    beside=f"{found.steps:,} read back, each once; {cost[-1][1]:.1f} µs of CPU a step",
                )  # fmt: skip
            await bench.close()
