"""`runspine bench frame`: every point of many runs into a data frame, compared with other tools' readers.

`python -m runspine.bench.telemetry.frame ADDRESS FILE` reads the runs in a file and prints what it took.
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from runspine.api import frames
from runspine.api.core import ApiCore
from runspine.api.loop_thread import loop_thread
from runspine.bench.kit.figures import Report
from runspine.bench.kit.ports import free_port
from runspine.bench.kit.screen import Announce
from runspine.bench.telemetry.peer_frames import NAME, TOOLS, ReadFrame, measure, peak_mib
from runspine.bench.telemetry.store import admin, blobs_of, memory_mib, service, submit
from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.rpc.endpoint import Endpoint
from runspine.services.telemetry.core.compaction import MAX_ROWS
from runspine.services.telemetry.core.segments import make_segment
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.services.telemetry.edges.segment_store import SegmentStore

SERVICE_MIB = 512
READ_SECONDS = 3600


class WrongFrameError(Exception):
    """The frame does not hold the points that were written."""


async def bench_frame(runs: int, points: int, peers: str, announce: Announce) -> Report:
    report = Report("Data frames")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        announce("a log and a store")
        async with running_stack(Path(scratch) / "frames", only={"nats", "s3"}) as stack:
            ours, service_mib = await measure_ours(stack, runs, points, Path(scratch), announce)
        _add(report, "Runspine", ours, runs, points)
        report.add(
            "peak memory of the service", service_mib, "MiB", target=f"≤ {SERVICE_MIB} MiB",
            met=service_mib <= SERVICE_MIB,
        )  # fmt: skip
        for tool in TOOLS:
            announce(f"the same points in {tool}")
            folder = Path(scratch) / tool.replace(" ", "-")
            found = await asyncio.to_thread(measure, tool, runs, points, folder, peers)
            if isinstance(found, str):
                report.add(f"{tool}: points to a data frame", math.nan, "s", context=f"not measured: {found}")
            else:
                _add(report, tool, found, runs, points)
    return report


def _add(report: Report, tool: str, read: ReadFrame, runs: int, points: int) -> None:
    check(read, runs, points)
    report.add(
        f"{tool}: {runs:,} × {points:,} points to a data frame", read.seconds, "s", group="frame", who=tool,
        context=f"{read.rows / read.seconds:,.0f} points/s; reader at most {read.peak_mib:,.0f} MiB",
    )  # fmt: skip


def check(read: ReadFrame, runs: int, points: int) -> None:
    """Raises WrongFrameError unless every point is there."""
    wanted = float(np.sum(_values(points))) * runs
    if read.rows != runs * points or not math.isclose(read.total, wanted, rel_tol=1e-9):
        raise WrongFrameError(
            f"{read.rows:,} rows with the sum {read.total}, not {runs * points:,} with {wanted}"
        )


def _values(points: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The values of `peer_frames.value_at`."""
    mixed = (np.arange(points, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    return mixed.astype(np.float64) / 2**53


async def measure_ours(
    stack: Stack, runs: int, points: int, scratch: Path, announce: Announce
) -> tuple[ReadFrame, float]:
    """What a process reads through the API, and the peak memory of the service meanwhile in MiB."""
    announce(f"{runs:,} runs of {points:,} points into the archive")
    blobs = blobs_of(stack)
    async with admin(stack) as (_, log):
        run_ids = [await submit(log) for _ in range(runs)]
        await put_runs(ManifestChain(blobs, 0, 1), SegmentStore(blobs, 1 << 20), run_ids, points)
    announce("a fresh service, and a process that reads all of it")
    names, address = scratch / "runs.json", f"127.0.0.1:{free_port()}"
    names.write_text(json.dumps(run_ids))
    async with service(stack, RUNSPINE_INGEST="false", RUNSPINE_GRPC_ADDRESS=address) as (process, _):
        return await asyncio.to_thread(_read_apart, address, names), memory_mib(process.pid, "VmHWM")


async def put_runs(chain: ManifestChain, store: SegmentStore, run_ids: Sequence[str], points: int) -> None:
    """The same series of each run, put into the archive."""
    segments = []
    for run_id in run_ids:
        for first in range(0, points, MAX_ROWS):
            count = min(MAX_ROWS, points - first)
            made = await asyncio.to_thread(make_segment, run_id, "metrics", "", _table(first, count))
            await store.put(made)
            segments.append(made.segment)
    await chain.load()
    await chain.commit(chain.archive.next(cursor=chain.archive.cursor, at=0, writer="bench", added=segments))


def _table(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count, dtype=np.uint64)
    return pa.table(
        {
            "name": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([NAME])),
            "attempt": pa.array(np.ones(count, np.uint32)),
            # As if a batch held 1,000 points.
            "position": pa.array(numbers // np.uint64(1000) + np.uint64(1)),
            "block": pa.array(np.zeros(count, np.uint32)),
            "step": pa.array(numbers),
            "value": pa.array(_values(first + count)[first:]),
            "at": pa.array(numbers.astype(np.int64) * 50 + 1_794_800_000_000_000),
        }
    )


def _read_apart(address: str, names: Path) -> ReadFrame:
    """Read the runs in a process of its own, whose memory is theirs alone."""
    command = [sys.executable, "-m", "runspine.bench.telemetry.frame", address, str(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=READ_SECONDS)
    if done.returncode:
        raise WrongFrameError(done.stderr)
    return ReadFrame(*json.loads(done.stdout))


def main(address: str, names: Path) -> None:
    import pandas  # noqa: F401 - its import is not part of the measurement

    core = ApiCore(Endpoint(trainer=address, telemetry=address, artifacts=address))
    run_ids = json.loads(names.read_text())
    began = time.perf_counter()
    frame = loop_thread().run(frames.frame(core, run_ids, [NAME], frames.Shape(format="pandas")))
    seconds = time.perf_counter() - began
    print(json.dumps(ReadFrame(len(frame), seconds, peak_mib(), float(frame["value"].sum()))))
    loop_thread().run(core.close())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
