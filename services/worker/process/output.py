"""Reads a trainer's output: telemetry goes to the pipeline, log lines to files as well."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import structlog

from runspine.clock import now_micros
from runspine.services.worker.artifacts.beneath import open_beneath, opened_folder
from runspine.services.worker.process.telemetry_socket import TelemetrySocket
from runspine.services.worker.process.trainer_process import CHUNK
from runspine.services.worker.protocol.failure_line import FailureLine
from runspine.services.worker.protocol.frame_splitter import Frame, FrameSplitter
from runspine.services.worker.protocol.line_splitter import LineSplitter
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.wire.v1.telemetry_pb2 import STDERR, STDOUT, LogSource

log = structlog.get_logger()

MAX_TAIL_LINES = 40
MAX_TAIL_BYTES = 8 << 10
MAX_REASON_LENGTH = 300
# Of one trainer. Forked processes share the descriptor and need none.
MAX_CONNECTIONS = 1024
# Of lines that have begun on all connections of a trainer: a process must not exhaust the worker's memory.
MAX_PARTIAL_BYTES = 64 << 20
TOO_MANY = (
    f"more than {MAX_CONNECTIONS:,} processes of the trainer send telemetry: the others are not recorded. "
    "Fork them instead of spawning them, or start fewer"
)


class Output:
    """The output streams of one trainer, with secrets redacted."""

    def __init__(self, folder: Path, telemetry: TelemetryPipeline) -> None:
        self._folder = folder
        self._telemetry = telemetry
        self._tail: deque[str] = deque(maxlen=MAX_TAIL_LINES)
        self._failure = FailureLine()
        self._connections = 0
        self._partial_bytes = 0
        self._refused = 0

    async def follow(
        self,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        telemetry: asyncio.StreamReader,
        sockets: TelemetrySocket | None = None,
    ) -> None:
        """Read until all streams have ended; of the socket, until `TelemetrySocket.end` was called."""
        with OutputFile(self._folder / "stdout.log") as out, OutputFile(self._folder / "stderr.log") as err:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._read(stdout, STDOUT, out))
                    group.create_task(self._read(stderr, STDERR, err))
                    group.create_task(self._read(telemetry, STDOUT, out, FrameSplitter()))
                    if sockets:

                        def serve(connection: socket.socket) -> None:
                            self._serve(connection, out, group)

                        group.create_task(sockets.accept(serve))
            except ExceptionGroup as several:
                # They fail for the same reason, which becomes the reason of the run.
                raise several.exceptions[0] from several

    @property
    def tail(self) -> str:
        """The last lines of stderr."""
        text = "\n".join(self._tail).encode()[-MAX_TAIL_BYTES:]
        return text.decode("utf-8", "ignore")

    @property
    def last_line(self) -> str:
        """The last line of stderr that states something, or the one that it is about."""
        return self._failure.text[:MAX_REASON_LENGTH]

    async def _read(
        self,
        stream: asyncio.StreamReader,
        source: LogSource,
        file: OutputFile,
        splitter: LineSplitter | FrameSplitter | None = None,
    ) -> None:
        splitter = splitter or LineSplitter()
        await self._telemetry.wait_for_space()
        while chunk := await stream.read(CHUNK):
            self._take(splitter.feed(chunk), source, file)
            await self._telemetry.wait_for_space()
        self._take(splitter.finish(), source, file)

    def _serve(self, connection: socket.socket, file: OutputFile, group: asyncio.TaskGroup) -> None:
        if self._connections >= MAX_CONNECTIONS:
            connection.close()
            if not self._refused:
                self._telemetry.log_line(TOO_MANY)
            self._refused += 1
            return
        self._connections += 1
        group.create_task(self._read_connection(connection, file))

    async def _read_connection(self, connection: socket.socket, file: OutputFile) -> None:
        """Read the stream of one process. Its lines are its own: no other process can break them."""
        splitter, loop = FrameSplitter(), asyncio.get_running_loop()
        # A connection that fails has ended.
        try:
            with connection, contextlib.suppress(ConnectionError):
                await self._telemetry.wait_for_space()
                while chunk := await loop.sock_recv(connection, CHUNK):
                    self._partial_bytes -= splitter.held
                    self._take(splitter.feed(chunk), STDOUT, file)
                    if self._partial_bytes + splitter.held > MAX_PARTIAL_BYTES:
                        self._take(splitter.finish(), STDOUT, file)
                    self._partial_bytes += splitter.held
                    await self._telemetry.wait_for_space()
        finally:
            self._connections -= 1
            self._partial_bytes -= splitter.held
        self._take(splitter.finish(), STDOUT, file)

    def _take(self, lines: Iterable[bytes | Frame], source: LogSource, file: OutputFile) -> None:
        at = now_micros()
        for line in lines:
            text = self._telemetry.take(line, source, at)
            if text is not None:
                file.write(text)
                if source == STDERR:
                    self._tail.append(text[:MAX_TAIL_BYTES])
                    self._failure.add(text[:MAX_TAIL_BYTES])
        self._telemetry.cut_batches()
        file.flush()


class OutputFile:
    """A copy of the log lines in the run's directory. A full disk costs the copy, not the run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> OutputFile:
        try:
            self._file = _create(self._path)
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


def _create(path: Path) -> IO[str]:
    """A new file: the trainer may have put a link or a pipe in its place. Raises OSError."""
    with opened_folder(path.parent) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        descriptor = open_beneath(folder, path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="replace")
