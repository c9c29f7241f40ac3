"""What comes out of a trainer: understood, passed on, and its words kept in files."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import structlog

from runspine.wire.v1.telemetry_pb2 import STDERR, STDOUT, LogSource
from services.worker.lines import LineSplitter
from services.worker.recorder import now
from services.worker.telemetry import Telemetry
from services.worker.trainer import CHUNK

log = structlog.get_logger()

TAIL_LINES = 40
TAIL_BYTES = 8 << 10
REASON_LENGTH = 300


class Output:
    """The streams of one trainer. Secrets are gone from here on."""

    def __init__(self, folder: Path, telemetry: Telemetry) -> None:
        self._folder = folder
        self._telemetry = telemetry
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    async def follow(
        self, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader, telemetry: asyncio.StreamReader
    ) -> None:
        """Until all streams have ended."""
        with KeptFile(self._folder / "stdout.log") as out, KeptFile(self._folder / "stderr.log") as err:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._read(stdout, STDOUT, out))
                    group.create_task(self._read(stderr, STDERR, err))
                    group.create_task(self._read(telemetry, STDOUT, out))
            except ExceptionGroup as several:
                # They fail for the same reason, and that is what the run is told.
                raise several.exceptions[0] from several

    @property
    def tail(self) -> str:
        """The last lines of stderr."""
        text = "\n".join(self._tail).encode()[-TAIL_BYTES:]
        return text.decode("utf-8", "ignore")

    @property
    def last_word(self) -> str:
        """The last line of stderr that says something."""
        said = [line.strip() for line in self._tail if line.strip()]
        return said[-1][:REASON_LENGTH] if said else ""

    async def _read(self, stream: asyncio.StreamReader, source: LogSource, kept: KeptFile) -> None:
        splitter = LineSplitter()
        await self._telemetry.room()
        while chunk := await stream.read(CHUNK):
            self._take(splitter.feed(chunk), source, kept)
            await self._telemetry.room()
        self._take(splitter.finish(), source, kept)

    def _take(self, lines: Iterable[bytes], source: LogSource, kept: KeptFile) -> None:
        at = now()
        for line in lines:
            text = self._telemetry.take(line, source, at)
            if text is not None:
                kept.write(text)
                if source == STDERR:
                    self._tail.append(text[:TAIL_BYTES])
        self._telemetry.settle()
        kept.flush()


class KeptFile:
    """A copy of the words for people on this machine. A full disk costs the copy, not the run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> KeptFile:
        try:
            self._file = self._path.open("w", encoding="utf-8", errors="replace")
        except OSError as error:
            self._give_up(error)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._file:
                self._file.close()
        except OSError as error:
            self._give_up(error)

    def write(self, line: str) -> None:
        try:
            if self._file:
                self._file.write(line + "\n")
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        try:
            if self._file:
                self._file.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("output.not_kept", path=str(self._path), error=str(error))
        self._file = None
