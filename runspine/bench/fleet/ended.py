"""Memory and CPU time that runs cost the orchestrator after their end."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence

from runspine.bench.control.seed_log import life_of
from runspine.bench.fleet.boards import FilledBoard, run_id_of
from runspine.bench.kit.figures import Report
from runspine.bench.kit.screen import Announce
from runspine.bench.telemetry.store import memory_mib
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.listing import list_runs
from runspine.wire.v1.run_pb2 import FAILED
from runspine.wire.v1.trainer_pb2 import ListRequest

SNAPSHOT = "capture of a snapshot on the event loop"
MEMORY = "memory of a thousand runs"
QUERIES = {
    "page of all": ListRequest(page_size=50),
    "page of failed, of which there are none": ListRequest(page_size=50, phases=[FAILED]),
    "page of one label": ListRequest(page_size=50, labels={"group": "g7"}),
    "page by a part of the name": ListRequest(page_size=50, name="__77__"),
}


def bench_ended(sizes: Sequence[int], announce: Announce) -> Report:
    report = Report("Runs that have ended")
    names = (*QUERIES, SNAPSHOT)
    curves = {name: report.curve("fleet ended", name) for name in names}
    for size in sizes:
        announce(f"{size:,} ended runs")
        for name, value in measure_ended(size).items():
            if name in curves:
                curves[name].append((size, value))
            unit, scale = ("MiB", 1) if name == MEMORY else ("ms", 1000)
            report.add(f"{name}, {size:,} ended runs", value * scale, unit)
    return report


def measure_ended(size: int) -> dict[str, float]:
    gc.collect()
    before = memory_mib(os.getpid(), "VmRSS")
    filled = FilledBoard()
    for number in range(size):
        for subject, commits in life_of(run_id_of(number), number, 1_700_000_000_000_000 + number):
            stream = "RUNS" if subject.startswith("runs.") else "ATTEMPTS"
            for facts in commits:
                filled.apply(stream, subject, *facts)
            filled.forget(subject)
    gc.collect()
    found = {MEMORY: (memory_mib(os.getpid(), "VmRSS") - before) / size * 1000}
    board = filled.board
    for name, request in QUERIES.items():
        found[name] = _cpu(lambda request=request: list_runs(board, request))  # type: ignore[misc]
    capture = getattr(board, "capture", board.dump)
    found[SNAPSHOT] = _cpu(capture)
    state, again = board.dump(), Board()
    found["load of a snapshot"] = _cpu(lambda: again.load(state))
    return found


def _cpu(work: Callable[[], object]) -> float:
    """The least CPU seconds of three calls."""
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)
