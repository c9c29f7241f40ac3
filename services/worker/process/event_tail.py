"""Follows the TensorBoard event files of a run while they are written, wherever they lie in its directory.

Scalars that a trainer reports itself, by lines or through the instrumentation, are not read a second time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runspine.domain.event_files import NOT_FOLLOWED, RECORDED, is_event_file
from runspine.domain.event_scalars import EventFileError, EventFileReader, EventScalar
from runspine.services.worker.artifacts.beneath import open_regular, opened_folder
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline

log = structlog.get_logger()

POLL_SECONDS = 2.0
# A directory that takes long to search is searched less often.
SEARCH_SHARE = 20
CHUNK = 256 << 10
MAX_NAMES = 100_000
MAX_FILES = 500
# Of the list that the instrumentation writes.
MAX_RECORDED = 4 << 20
# At the end of a run: longer than any file that is worth waiting for.
LAST_SECONDS = 60.0


@dataclass(slots=True)
class FollowedFile:
    """One event file and how far it was read."""

    path: str
    reader: EventFileReader = field(default_factory=EventFileReader)
    offset: int = 0
    # Whether it was there at an earlier search: its writer has had time to claim it.
    settled: bool = False
    ended: bool = False


class EventTail:
    """Reads the event files below a run's directory into its telemetry."""

    def __init__(self, run_dir: Path, telemetry: TelemetryPipeline) -> None:
        self._run_dir = run_dir
        self._telemetry = telemetry
        self._files: dict[str, FollowedFile] = {}
        self._left_out = False
        # For the run's log, from threads.
        self._notes: list[str] = []

    async def follow(self) -> None:
        """Read at intervals, until cancelled."""
        while True:
            began = time.monotonic()
            await asyncio.to_thread(self._search)
            pause = max(POLL_SECONDS, SEARCH_SHARE * (time.monotonic() - began))
            await self._read_all(time.monotonic() + LAST_SECONDS)
            await asyncio.sleep(pause)

    async def finish(self) -> None:
        """Read the rest after the trainer's end."""
        await asyncio.to_thread(self._search)
        for file in self._files.values():
            file.settled = True
        if not await self._read_all(time.monotonic() + LAST_SECONDS):
            self._telemetry.log_line(
                f"event files of TensorBoard were not read to their end within {LAST_SECONDS:.0f} s: "
                "their scalars are incomplete here; the files are kept"
            )

    async def _read_all(self, deadline: float) -> bool:
        """Read what is there; False when the time was too short."""
        claimed = await asyncio.to_thread(self._claimed)
        for file in self._files.values():
            if file.path in claimed or os.path.dirname(file.path) + "/" in claimed:
                file.ended = True
            while file.settled and not file.ended:
                await self._telemetry.wait_for_space()
                scalars = await asyncio.to_thread(self._read, file)
                if scalars is None:
                    break
                self._telemetry.add_scalars(scalars)
                if time.monotonic() > deadline:
                    return False
            file.settled = True
        while self._notes:
            self._telemetry.log_line(self._notes.pop(0))
        return True

    def _read(self, file: FollowedFile) -> list[EventScalar] | None:
        """The next scalars of a file; None when there is nothing new. Blocks."""
        chunk = self._read_beneath(file.path, CHUNK, file.offset)
        file.offset += len(chunk)
        try:
            return file.reader.feed(chunk) if chunk else None
        except EventFileError as error:
            file.ended = True
            self._notes.append(f"{file.path} is not read further: {error}; it is kept as it is")
            return None

    def _read_beneath(self, path: str, size: int, offset: int = 0) -> bytes:
        """A part of a regular file of the run's directory; nothing where a link would lead out of it."""
        try:
            with opened_folder(self._run_dir) as root:
                descriptor = open_regular(root, path)
        except OSError:
            return b""
        try:
            return os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)

    def _search(self) -> None:
        for path in _event_files(self._run_dir):
            if path in self._files:
                continue
            if len(self._files) >= MAX_FILES:
                if not self._left_out:
                    self._left_out = True
                    self._notes.append(
                        f"more than {MAX_FILES} event files of TensorBoard: the others are not read"
                    )
                return
            self._files[path] = FollowedFile(path)

    def _claimed(self) -> set[str]:
        """Files, and folders with a slash at the end, that the instrumentation records. Blocks."""
        text = self._read_beneath(RECORDED, MAX_RECORDED).decode(errors="replace")
        return {os.path.relpath(path, self._run_dir) + "/" * path.endswith("/") for path in text.splitlines()}


def _event_files(root: Path) -> Iterator[str]:
    """Event files below `root`, as relative paths; links are not followed."""
    waiting, names = [""], 0
    while waiting and names < MAX_NAMES:
        folder = waiting.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    names += 1
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if path not in NOT_FOLLOWED:
                            waiting.append(path)
                    elif is_event_file(path) and entry.is_file(follow_symlinks=False):
                        yield path
        except OSError:
            continue
