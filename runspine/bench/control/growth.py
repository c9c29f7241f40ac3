"""Growth of each cost with runs, facts, points and workers."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runspine.bench.control.control import Caller, measure_restart
from runspine.bench.kit.figures import Report, spread
from runspine.bench.kit.screen import Announce
from runspine.bench.peers import ray_jobs, tensorboard_reader
from runspine.bench.telemetry.durable import DurableBench, TrainerLoad, sandbox_with
from runspine.bench.telemetry.query import measure_chart
from runspine.bench.telemetry.telemetry import Durable, measure_durable
from runspine.embedded import running_stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec

CLIENTS = 16
TIMEOUT_SECONDS = 400.0


async def grow_runs(report: Report, sizes: Sequence[int], jobs: int, peers: str, announce: Announce) -> None:
    """Submit many runs that do nothing at once, to one worker with two slots."""
    together, each, listed = (
        report.curve("runs", f"runspine: {name}") for name in ("all done", "a run", "a page of the list")
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        async with running_stack(Path(scratch) / "runs", workers=1, slots=2) as stack:
            caller = Caller(stack)
            caller.life(RunSpec(runner="script", command=["true"]))
            for size in sizes:
                announce(f"{size:,} runs at once, until all are done")
                seconds, page = await asyncio.to_thread(_all_done, caller, size)
                together.append((size, seconds))
                each.append((size, seconds / size))
                listed.append((size, page))
                report.add(
                    f"{size:,} {'run' if size == 1 else 'runs'}, submitted at once → all done", seconds, "s",
                    context=f"{size / seconds:.1f} runs/s; a page of the list {page * 1000:.1f} ms",
                )  # fmt: skip
    if jobs:
        announce(f"{jobs} jobs of Ray, until all are done")
        found = await asyncio.to_thread(ray_jobs.measure, peers, 1, jobs)
        if isinstance(found, str):
            report.add(f"{jobs} jobs of Ray → all done", float("nan"), "", context=f"not measured: {found}")
            return
        peer = report.curve("runs", "Ray Jobs: all done")
        peer += [(1, found.done[0]), (jobs, found.together)]
        report.add(
            f"{jobs} jobs of Ray → all done",
            found.together,
            "s",
            context=f"{jobs / found.together:.2f} jobs/s",
        )


def _all_done(caller: Caller, size: int) -> tuple[float, float]:
    """Seconds until all of them are done, and for one page of the list then."""
    label = f"g{size}"
    spec = RunSpec(runner="script", command=["true"], labels={"size": label})
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda _: caller.submit(spec), range(size)))
    done = wire.ListRequest(page_size=1, phases=[COMPLETED], labels={"size": label})
    while caller.stub.List(done, metadata=caller.auth).total < size:
        if time.perf_counter() - began > TIMEOUT_SECONDS:
            raise TimeoutError(f"{size} runs are not done after {TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.005 if size < 100 else 0.05)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(10):
        caller.stub.List(wire.ListRequest(page_size=50), metadata=caller.auth)
    return seconds, (time.perf_counter() - began) / 10


async def grow_facts(report: Report, sizes: Sequence[int], announce: Announce) -> None:
    """Start an orchestrator on logs of these lengths."""
    cold, warm = (report.curve("facts", name) for name in ("the whole log is read", "from the snapshot"))
    memory, disk = report.curve("facts memory", "memory"), report.curve("facts memory", "log on the disk")
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
            found = await measure_restart(report, Path(scratch) / "long", size, announce)
        cold.append((size, found.cold))
        warm.append((size, found.warm))
        memory.append((size, found.memory_mib))
        disk.append((size, found.log_bytes / (1 << 20)))


async def grow_points(report: Report, sizes: Sequence[int], announce: Announce) -> None:
    """Chart series of these lengths with a fresh service and with a fresh TensorBoard."""
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
                found = await measure_chart(report, stack, size, announce)
            opened.append((size, found.opened))
            first.append((size, found.first))
            zoom.append((size, found.zoom))
            group = f"open {size}"
            report.add(
                f"a run of {size:,} points opened, runspine", found.opened, "s", group=group, who="runspine",
                context="2 of 2 spikes on the chart; every zoom down to single points is exact",
            )  # fmt: skip
            if size <= tensorboard_reader.MAX_POINTS:
                announce(f"TensorBoard opens {size:,} points")
                seen = await asyncio.to_thread(tensorboard_reader.opened, Path(scratch) / f"tb{size}", size)
                if isinstance(seen, tensorboard_reader.Opened):
                    board.append((size, seen.seconds))
                _report_board(report, seen, size, group)


def _report_board(report: Report, seen: tensorboard_reader.Opened | str, size: int, group: str) -> None:
    what = f"a run of {size:,} points opened, TensorBoard"
    if isinstance(seen, str):
        report.add(what, float("nan"), "", context=f"not measured: {seen}", group=group, who="TensorBoard")
        return
    report.add(
        what, seen.seconds, "s", group=group, who="TensorBoard",
        context=f"{seen.spikes} of 2 spikes on the chart; it keeps {seen.shown:,} points, zoomed or not",
    )  # fmt: skip


async def grow_workers(
    report: Report, sizes: Sequence[int], steps: int, rounds: int, announce: Announce
) -> None:
    """Durable steps per second of workers with one trainer each, for the same total of steps."""
    rate, cost = report.curve("workers", "all together"), report.curve("workers cost", "CPU a step")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        folder = Path(scratch)
        shared = sandbox_with(folder / "trainers")
        async with running_stack(folder / "stack", workers=max(sizes), slots=1, settings=shared) as stack:
            bench = DurableBench(stack, folder / "trainers")
            for size in sizes:
                found = Durable()
                for _ in range(rounds):
                    announce(f"{size} workers with a trainer each, {steps:,} steps in all")
                    await measure_durable(bench, TrainerLoad(size, steps // size), found)
                got = spread(found.rates)
                rate.append((size, got["value"]))
                cost.append((size, spread(found.costs)["value"]))
                report.add(
                    f"steps durable, {size} {'worker' if size == 1 else 'workers'}", unit="steps/s", **got,
                    context=f"{found.steps:,} read back, each once; {cost[-1][1]:.1f} µs of CPU a step",
                )  # fmt: skip
            await bench.close()
