"""`runspine bench query`: first chart of a very long series, zooms into it, and memory."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from runspine.bench.kit.figures import Report
from runspine.bench.kit.screen import Announce
from runspine.bench.telemetry.long_series import HIGH, LOW, NAME, put_series
from runspine.bench.telemetry.store import admin, blobs_of, memory_mib, service, submit
from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.wire.v1 import telemetry_pb2 as wire

# Target for series of any length.
MEMORY_MIB = 512
TARGET_POINTS = 100_000_000


async def bench_query(points: int, announce: Announce) -> Report:
    report = Report("Long series")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        announce("a log and a store")
        async with running_stack(Path(scratch) / "charts", only={"nats", "s3"}) as stack:
            await measure_chart(report, stack, points, announce)
    return report


class Charted(NamedTuple):
    """Seconds from the start of a service to the first chart, of that chart, and of the slowest zoom."""

    opened: float
    first: float
    zoom: float
    peak_mib: float
    bytes: int


async def measure_chart(report: Report, stack: Stack, points: int, announce: Announce) -> Charted:
    announce(f"a series of {points:,} points into the archive")
    blobs = blobs_of(stack)
    async with admin(stack) as (_, log):
        run_id = await submit(log)
        size = await put_series(ManifestChain(blobs, 0, 1), SegmentStore(blobs, 1 << 20), run_id, points)
    announce("a fresh service, its first chart, and ten zooms")
    began_all = time.perf_counter()
    async with service(stack, RUNSPINE_INGEST="false") as (process, stub):
        # The first call waits until the archive is read, as at any start.
        while not (await stub.ListSeries(wire.ListSeriesRequest(run_id=run_id))).series:
            await asyncio.sleep(0.01)
        idle = memory_mib(process.pid, "VmRSS")

        async def draw(low: float, high: float) -> tuple[Any, float]:
            request = wire.QueryMetricsRequest(run_id=run_id, names=[NAME], max_points=1000, to=high)
            setattr(request, "from", low)
            began = time.perf_counter()
            answer = await stub.QueryMetrics(request)
            return answer.series[0], time.perf_counter() - began

        whole, first = await draw(0, points)
        opened = time.perf_counter() - began_all
        assert (whole.points, min(whole.low), max(whole.high)) == (points, LOW, HIGH)
        zooms, width = [], min(1000, points // 20)
        for n in range(1, 11):
            start = points * n // 11
            zoomed, seconds = await draw(start, start + width - 1)
            assert zoomed.exact
            assert len(zoomed.x) == width
            zooms.append(seconds)
        _, again = await draw(0, points)
        peak = memory_mib(process.pid, "VmHWM")
    report.add(
        f"first chart of {points:,} points", first, "s", target="≤ 1 s", met=first <= 1,
        key="chart" if points >= TARGET_POINTS else "",
        context=f"again {again:.3f} s; {opened:.1f} s from the start of the service; "
        f"the series takes {size / points:.1f} B a point",
    )  # fmt: skip
    report.add(
        f"zoom to {width:,} raw points, slowest of 10", max(zooms) * 1000, "ms", target="≤ 300 ms",
        met=max(zooms) <= 0.3, context=f"fastest {min(zooms) * 1000:.0f} ms",
    )  # fmt: skip
    report.add(
        "peak memory of the service", peak, "MiB", target=f"≤ {MEMORY_MIB} MiB", met=peak <= MEMORY_MIB,
        context=f"{idle:.0f} MiB before the first chart",
    )  # fmt: skip
    return Charted(opened, first, max(zooms), peak, size)
