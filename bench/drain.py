"""The other end of a trainer's pipe, in a process of its own, reading as the worker does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runspine.sdk.run import Run

CHUNK = 1 << 16


class Drain:
    """A run whose lines are read, understood and counted. `counts` is there after the end."""

    def __init__(self, folder: Path, **more: str) -> None:
        read, write = os.pipe()
        command = [sys.executable, "-m", "bench.drain", str(read)]
        self._process = subprocess.Popen(command, pass_fds=[read], stdout=subprocess.PIPE)
        os.close(read)
        self._write = write
        given = {"RUN_ID": "bench", "RUN_DIR": str(folder), "TELEMETRY_FD": str(write), **more}
        self.run = Run({f"RUNSPINE_{name}": value for name, value in given.items()})
        self.counts: dict[str, int] = {}

    def end(self) -> None:
        self.run.finish()
        os.close(self._write)
        said, _ = self._process.communicate(timeout=60)
        self.counts = json.loads(said)
        assert self.run.dropped == 0, f"{self.run.dropped} lines dropped: {self.run.pipe.trouble}"


@contextmanager
def drained(folder: Path, **more: str) -> Iterator[Drain]:
    """`more` are variables of the run, without their prefix."""
    drain = Drain(folder, **more)
    try:
        yield drain
    finally:
        drain.end()


def count_lines(descriptor: int) -> dict[str, int]:
    """Read to the end; steps, episodes, bytes, and lines that were not understood."""
    from runspine.wire.v1.telemetry_pb2 import Episode, StepBlock
    from services.worker.protocol import ProtocolReader
    from services.worker.protocol_events import Line

    reader = ProtocolReader()
    counts = {"steps": 0, "episodes": 0, "bytes": 0, "unknown": 0}
    rest = b""
    while chunk := os.read(descriptor, CHUNK):
        counts["bytes"] += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            event = reader.read(line, 0)
            if isinstance(event, StepBlock):
                counts["steps"] += event.count
            counts["episodes"] += isinstance(event, Episode)
            counts["unknown"] += isinstance(event, Line)
    return counts


if __name__ == "__main__":
    print(json.dumps(count_lines(int(sys.argv[1]))))
