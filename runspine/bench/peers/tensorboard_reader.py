"""Measures how long a fresh TensorBoard takes to open a run of any length."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from runspine.bench.kit.ports import free_port
from runspine.bench.peers.event_file import write_events
from runspine.bench.telemetry.long_series import HIGH, LOW, NAME, spikes, values_of

# A longer file takes TensorBoard too long for a benchmark.
MAX_POINTS = 10_000_000
TIMEOUT_SECONDS = 300.0
POLL_SECONDS = 0.05


class Opened(NamedTuple):
    """Seconds from the start of the process, points and spikes shown, and memory."""

    seconds: float
    shown: int
    spikes: int
    memory_mib: float
    file_bytes: int


def opened(folder: Path, points: int) -> Opened | str:
    """Measure until the chart reaches the end of the series; or the reason why it does not."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        return "tensorboard is not installed"

    def values(first: int, count: int) -> Any:
        found = values_of(first, count)
        for at, value in zip(spikes(points), (LOW, HIGH), strict=True):
            if first <= at < first + count:
                found[at - first] = value
        return found

    file = write_events(folder / "run", NAME, values, points)
    try:
        return _measure(folder, points, file.stat().st_size)
    finally:
        file.unlink()


def _measure(folder: Path, points: int, size: int) -> Opened | str:
    port = free_port()
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port)]
    query = urllib.parse.urlencode({"run": "run", "tag": NAME})
    url = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?{query}"
    began = time.perf_counter()
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while time.perf_counter() - began < TIMEOUT_SECONDS:
                rows = _rows(url)
                if rows and rows[-1][1] == points - 1:
                    seconds = time.perf_counter() - began
                    seen = {row[2] for row in rows}
                    return Opened(seconds, len(rows), len(seen & {LOW, HIGH}), _memory(process.pid), size)
                time.sleep(POLL_SECONDS)
            return f"not at the end of {points:,} points within {TIMEOUT_SECONDS:.0f} s"
        finally:
            process.terminate()


def _rows(url: str) -> list[list[float]]:
    """Rows of the chart; empty until it answers."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            rows: list[list[float]] = json.load(answer)
            return rows
    except (urllib.error.URLError, ConnectionError):
        return []


def _memory(pid: int) -> float:
    """Memory of TensorBoard and of the reader that it starts."""
    parent = psutil.Process(pid)
    return sum(each.memory_info().rss for each in (parent, *parent.children(recursive=True))) / (1 << 20)
