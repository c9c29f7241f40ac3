"""Collects the artifacts of one attempt in order: checks and links each file, then queues its upload."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from runspine.domain.artifact_kinds import LOADABLE, VIDEO
from runspine.services.worker.artifacts.clip_meta import read_clip_meta
from runspine.services.worker.artifacts.discovery import discover, event_files_in
from runspine.services.worker.artifacts.intents import UploadRefusedError
from runspine.services.worker.artifacts.pending import PendingArtifacts
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.metrics import UPLOADS
from runspine.services.worker.protocol.redact import Redactor
from runspine.tasks import cancel_and_wait

Report = Callable[[str], Awaitable[None]]


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
    ) -> None:
        """`tag` is added to the metadata of every checkpoint, whatever the trainer gives."""
        self._uploads = uploads
        self._run_id = run_id
        self._attempt = attempt
        self._run_dir = run_dir
        self._redact = redact
        self._report = report
        self._tag = dict(tag or {})
        self._announced = announced
        self._queue: asyncio.Queue[tuple[int, dict[str, Any], int]] = asyncio.Queue()
        # Path and digest of the files collected so far.
        self._known: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to collect announced files."""
        self._task = asyncio.create_task(self._work(), name=f"artifacts-{self._run_id}")

    def announce(self, event: dict[str, Any], after: int) -> None:
        """Queue an artifact line that follows batch number `after` of the telemetry."""
        self._queue.put_nowait((self._announced.add(event, after, self._redact), event, after))

    async def collect_announced(self) -> None:
        """Collect what an earlier process had read and not collected. Used instead of `start`."""
        for event, after in await asyncio.to_thread(self._announced.left):
            await self._collect_announced(event, after)

    async def collect_unannounced(self, seconds: float) -> None:
        """After the trainer's end: collect files that it did not announce, for at most `seconds`."""
        await self._drain_queue()
        deadline = time.monotonic() + seconds
        found = await asyncio.to_thread(discover, self._run_dir)
        for note in found.notes:
            await self._report(note)
        for index, file in enumerate(found.files):
            if time.monotonic() > deadline:
                left = len(found.files) - index
                await self._report(f"{left:,} files were not examined within {seconds:.0f} s: not uploaded")
                return
            meta = {"found": True}
            if file.kind == VIDEO:
                meta |= await asyncio.to_thread(read_clip_meta, self._run_dir, file.path)
            event = {"kind": file.kind, "path": file.path, "meta": meta}
            await self._collect(event, 0, unless=self._known)

    async def finish(self, seconds: float) -> None:
        """After the trainer's end: collect the rest, and wait at most `seconds` for checkpoints in S3."""
        await self._drain_queue()
        left = await self._uploads.wait_for_checkpoints(self._run_id, seconds)
        if left:
            what = "1 file is" if left == 1 else f"{left} files are"
            why = f": {self._uploads.trouble}" if self._uploads.trouble else ""
            await self._report(f"{what} not uploaded yet; the upload continues after the run's end{why}")
        for name in self._uploads.take_spoilt(self._run_id):
            await self._report(
                f"artifact {name} was overwritten before it could be uploaded: "
                "write each one to a file of its own, or to a draft that is then renamed"
            )

    def _tagged(self, event: dict[str, Any]) -> dict[str, Any]:
        meta = event.get("meta") or {}
        if not self._tag or event.get("kind") not in LOADABLE or not isinstance(meta, dict):
            return event
        return {**event, "meta": {**meta, **self._tag}}

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
            number, event, after = await self._queue.get()
            try:
                await self._collect_announced(event, after)
                self._announced.done(number)
            finally:
                self._queue.task_done()

    async def _collect_announced(self, event: dict[str, Any], after: int) -> None:
        """Collect an announced file, or the event files of an announced folder."""
        files = await asyncio.to_thread(event_files_in, self._run_dir, event)
        for each in [event] if files is None else files:
            await self._collect(each, after)

    async def _collect(
        self, event: dict[str, Any], after: int, unless: Collection[tuple[str, str]] = ()
    ) -> None:
        try:
            intent = await asyncio.to_thread(
                self._uploads.intents.accept,
                self._tagged(event),
                self._run_id,
                self._attempt,
                self._run_dir,
                self._redact,
                after=after,
                unless=unless,
            )
        except (UploadRefusedError, OSError) as error:
            UPLOADS.labels("refused").inc()
            path = str(event.get("path"))[:200]
            await self._report(f"artifact {path} is not uploaded: {error}")
            return
        if intent is not None:
            self._known.add((intent.path, intent.digest))
            await self._uploads.add(intent)
