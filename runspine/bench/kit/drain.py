"""A process that reads a trainer's pipe as the worker does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runspine.sdk.run import Run

CHUNK = 1 << 16


class Drain:
    """A run whose lines are read, parsed and counted. `counts` is set by `end`."""

    def __init__(self, folder: Path, **more: str) -> None:
        read, write = os.pipe()
        command = [sys.executable, "-m", "runspine.bench.kit.drain", str(read)]
        self._process = subprocess.Popen(command, pass_fds=[read], stdout=subprocess.PIPE)
        os.close(read)
        self._write = write
        given = {"RUN_ID": "bench", "RUN_DIR": str(folder), "TELEMETRY_FD": str(write), **more}
        self.run = Run({f"RUNSPINE_{name}": value for name, value in given.items()})
        self.counts: dict[str, int] = {}

    def end(self) -> None:
        self.run.finish()
        os.close(self._write)
        output, _ = self._process.communicate(timeout=60)
        self.counts = json.loads(output)
        assert self.run.dropped == 0, f"{self.run.dropped} lines dropped: {self.run.pipe.trouble}"


@contextmanager
def drained(folder: Path, **more: str) -> Iterator[Drain]:
    """A drain for the block. `more` are variables of the run, without their prefix."""
    drain = Drain(folder, **more)
    try:
        yield drain
    finally:
        drain.end()


def count_lines(descriptor: int) -> dict[str, int]:
    """Read to the end; count steps, episodes, bytes, and lines that were not parsed."""
    from runspine.services.worker.protocol.events import LogLine
    from runspine.services.worker.protocol.frame_splitter import Frame, FrameSplitter
    from runspine.services.worker.protocol.grid import RESET, GridEvent
    from runspine.services.worker.protocol.reader import ProtocolReader
    from runspine.wire.v1.telemetry_pb2 import Episode, StepBlock

    reader, splitter = ProtocolReader(), FrameSplitter()
    counts = {"steps": 0, "episodes": 0, "bytes": 0, "unknown": 0}
    while chunk := os.read(descriptor, CHUNK):
        counts["bytes"] += len(chunk)
        for line in splitter.feed(chunk):
            if isinstance(line, Frame):
                event: Any = reader.read_frame(line)
                counts["unknown"] += event is None
                if isinstance(event, GridEvent):
                    counts["steps"] += int((event.flags != RESET).sum())
                    counts["episodes"] += int(((event.flags & 3) != 0).sum())
            else:
                event = reader.read(line, 0)
            if isinstance(event, StepBlock):
                counts["steps"] += event.count
            counts["episodes"] += isinstance(event, Episode)
            counts["unknown"] += isinstance(event, LogLine)
    return counts


if __name__ == "__main__":
    print(json.dumps(count_lines(int(sys.argv[1]))))
