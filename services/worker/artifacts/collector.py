"""Collects the artifacts of one attempt in order: checks and links each file, then queues its upload."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from runspine.domain.artifact_kinds import LOADABLE, VIDEO
from runspine.services.worker.artifacts.clip_meta import read_clip_meta
from runspine.services.worker.artifacts.code_folder import below_run
from runspine.services.worker.artifacts.discovery import discover, event_files_in
from runspine.services.worker.artifacts.intents import Intent, UploadRefusedError
from runspine.services.worker.artifacts.pending import PendingArtifacts
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.metrics import UPLOADS
from runspine.services.worker.protocol.redact import Redactor
from runspine.tasks import cancel_and_wait

log = structlog.get_logger()

Report = Callable[[str], Awaitable[None]]

# Announced files that are examined together, with one write to the disk, for so long.
MAX_TOGETHER = 500
TOGETHER_SECONDS = 0.25


class Announcement(NamedTuple):
    """An artifact line, its number, and the batch of telemetry before it."""

    number: int
    event: dict[str, Any]
    after: int


@dataclass(slots=True)
class ExaminedFiles:
    """What became of the first announcements."""

    count: int = 0
    intents: list[Intent] = field(default_factory=list)
    # Path and reason.
    refused: list[tuple[str, str]] = field(default_factory=list)


class ArtifactCollector:
    """Accepts announced and discovered files of one attempt."""

    def __init__(
        self,
        uploads: Uploads,
        announced: PendingArtifacts,
        run_id: str,
        attempt: int,
        run_dir: Path,
        redact: Redactor,
        report: Report,
        tag: Mapping[str, Any] | None = None,
        work: Path | None = None,
    ) -> None:
        """`tag` is added to the metadata of every checkpoint, whatever the trainer gives. `work` is the
        folder in which the program started, if that is in a working copy of its code."""
        self._uploads = uploads
        self._run_id = run_id
        self._attempt = attempt
        self._run_dir = run_dir
        self._code_start = work
        self._redact = redact
        self._report = report
        self._tag = dict(tag or {})
        self._announced = announced
        self._queue: asyncio.Queue[Announcement] = asyncio.Queue()
        # Files that are announced and not collected, by kind and path.
        self._waiting: Counter[tuple[str, str]] = Counter()
        # Whether the end of the attempt is on the log: what is not uploaded now was counted as pending.
        self.ended = False
        # Path and digest of the files collected so far.
        self._known: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to collect announced files."""
        self._task = asyncio.create_task(self._work(), name=f"artifacts-{self._run_id}")

    def announce(self, event: dict[str, Any], after: int) -> None:
        """Queue an artifact line that follows batch number `after` of the telemetry."""
        event = below_run(event, self._run_dir, self._code_start)
        number = self._announced.add(event, after, self._redact)
        self._waiting[_file_of(event)] += 1
        self._queue.put_nowait(Announcement(number, event, after))

    async def collect_announced(self) -> None:
        """Collect what an earlier process had read and not collected. Used instead of `start`."""
        left = await asyncio.to_thread(self._announced.left)
        await self._collect([Announcement(0, *each) for each in left])

    @property
    def uncollected(self) -> int:
        """How many announced files are not collected yet; a file that is announced again counts once."""
        return len(self._waiting)

    async def wait_until_collected(self, seconds: float) -> bool:
        """Wait until every announced file is collected, at most `seconds`; False when some are not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._drain_queue()
        return not self._waiting

    async def collect_unannounced(self, seconds: float) -> None:
        """After the trainer's end: collect files that it did not announce, for at most `seconds`."""
        await self._drain_queue()
        deadline = time.monotonic() + seconds
        found = await asyncio.to_thread(discover, self._run_dir, self._code_start)
        for note in found.notes:
            await self._note(note)
        for index, file in enumerate(found.files):
            if time.monotonic() > deadline:
                left = len(found.files) - index
                await self._note(f"{left:,} files were not examined within {seconds:.0f} s: not uploaded")
                return
            meta = {"found": True}
            if file.kind == VIDEO:
                meta |= await asyncio.to_thread(read_clip_meta, self._run_dir, file.path)
            event = {"kind": file.kind, "path": file.path, "name": file.name, "meta": meta}
            await self._collect([Announcement(0, event, 0)], unless=self._known)

    async def finish(self, seconds: float) -> None:
        """After the trainer's end: collect the rest, and wait at most `seconds` for checkpoints in S3."""
        await self._drain_queue()
        left = await self._uploads.wait_for_checkpoints(self._run_id, seconds)
        if left:
            what = "1 file is" if left == 1 else f"{left} files are"
            why = f": {self._uploads.trouble}" if self._uploads.trouble else ""
            await self._note(f"{what} not uploaded yet; the upload continues after the run's end{why}")
        for name in self._uploads.take_spoilt(self._run_id):
            await self._note(
                f"artifact {name} was overwritten before it could be uploaded: "
                "write each one to a file of its own, or to a draft that is then renamed"
            )

    def _tagged(self, event: dict[str, Any]) -> dict[str, Any]:
        meta = event.get("meta") or {}
        if not self._tag or event.get("kind") not in LOADABLE or not isinstance(meta, dict):
            return event
        return {**event, "meta": {**meta, **self._tag}}

    async def _note(self, text: str) -> None:
        """Write a line into the run's log; after the end, which closes it, into the worker's."""
        if self.ended:
            log.warning("artifact.note", run_id=self._run_id, attempt=self._attempt, note=text)
        else:
            await self._report(text)

    async def _drain_queue(self) -> None:
        assert self._task
        done = asyncio.create_task(self._queue.join())
        try:
            await asyncio.wait({done, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(done)
        if self._task.done():
            self._task.result()  # raises when it failed: the queue would never become empty

    async def close(self) -> None:
        """Stop collecting."""
        if self._task:
            await cancel_and_wait(self._task)

    async def _work(self) -> None:
        while True:
            waiting = [await self._queue.get()]
            while len(waiting) < MAX_TOGETHER and not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            try:
                await self._collect(waiting)
                self._announced.done(*(each.number for each in waiting))
            finally:
                for _ in waiting:
                    self._queue.task_done()

    async def _collect(
        self, announcements: Sequence[Announcement], unless: Collection[tuple[str, str]] = ()
    ) -> None:
        """Collect files, and the event files of announced folders, as many at once as take a moment."""
        left = list(announcements)
        while left:
            examined = await asyncio.to_thread(self._examine, left, unless)
            collected, left = left[: examined.count], left[examined.count :]
            for path, why in examined.refused:
                UPLOADS.labels("refused").inc()
                await self._note(f"artifact {path[:200]} is not uploaded: {why}")
                if self.ended:
                    self._uploads.give_up(self._run_id, self._attempt, path, why)
            self._known.update((intent.path, intent.digest) for intent in examined.intents)
            await self._uploads.add(*examined.intents)
            # At once: a file is either uncollected or due, and the end of the attempt counts both.
            self._waiting -= Counter(_file_of(each.event) for each in collected if each.number)

    def _examine(
        self, announcements: Sequence[Announcement], unless: Collection[tuple[str, str]]
    ) -> ExaminedFiles:
        """Check, hash and link files until a moment has passed, and keep their intents. Blocks."""
        found = ExaminedFiles()
        until = time.monotonic() + TOGETHER_SECONDS
        for announcement in announcements:
            self._examine_one(announcement, unless, found)
            found.count += 1
            if time.monotonic() > until:
                break
        try:
            self._uploads.intents.keep(found.intents)
        except OSError as error:
            found.refused += [(intent.path, str(error)) for intent in found.intents]
            found.intents.clear()
        return found

    def _examine_one(
        self, announcement: Announcement, unless: Collection[tuple[str, str]], found: ExaminedFiles
    ) -> None:
        event = announcement.event
        files = event_files_in(self._run_dir, event)
        for each in [event] if files is None else files:
            try:
                intent = self._uploads.intents.examine(
                    self._tagged(each),
                    self._run_id,
                    self._attempt,
                    self._run_dir,
                    self._redact,
                    after=announcement.after,
                    unless=unless,
                )
            except (UploadRefusedError, OSError) as error:
                found.refused.append((str(each.get("path")), str(error)))
                continue
            if intent is not None:
                found.intents.append(intent)


def _file_of(event: dict[str, Any]) -> tuple[str, str]:
    return str(event.get("kind")), str(event.get("path"))
