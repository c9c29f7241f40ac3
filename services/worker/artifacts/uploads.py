"""Uploads of artifacts to S3. Each has its intent on disk until it is stored and on the log, exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import structlog

from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.ids import new_ulid
from runspine.services.worker.artifacts.artifact_recorder import ArtifactRecorder, Conclusion, artifact_bytes
from runspine.services.worker.artifacts.intents import MAX_NAME_LENGTH, Intent, Intents, open_intent
from runspine.services.worker.artifacts.upload_queue import UploadQueue
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.metrics import UPLOADS, UPLOADS_DUE
from runspine.services.worker.telemetry.precedence import Precedence
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs, FileChangedError
from runspine.storage.keys import ARTIFACTS_PREFIX
from runspine.wire.v1.facts_pb2 import Fact

log = structlog.get_logger()

MIN_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 15.0
# How long other files precede one that S3 did not accept.
POSTPONED_SECONDS = 10.0
# Incomplete multipart uploads older than this are aborted.
ABANDONED_AFTER = timedelta(days=2)
SUPERSEDED = "its attempt was given up before the steps that led to it were stored"


class Uploads:
    """All uploads of this worker, one at a time, checkpoints first."""

    def __init__(
        self, folder: Path, blobs: FileBlobs, fact_writer: FactWriter, precedence: Precedence
    ) -> None:
        self.intents = Intents(folder)
        self._blobs = blobs
        self._precedence = precedence
        self._queue = UploadQueue()
        self._recorder = ArtifactRecorder(fact_writer, self._recorded)
        self._changed = asyncio.Condition()
        self._loaded = asyncio.Event()
        self._distrusted: set[str] = set()
        self._spoilt: dict[str, list[str]] = {}
        self._pause = MIN_RETRY_SECONDS
        # Why S3 does not accept uploads, for people; empty while it does.
        self.trouble = ""
        UPLOADS_DUE.set_function(lambda: len(self._queue.due))

    async def run(self) -> None:
        """Upload until cancelled, beginning with what an earlier process left."""
        left = await asyncio.to_thread(self.intents.left)
        await asyncio.to_thread(
            self._precedence.forget, {f"{intent.run_id}.{intent.attempt}" for intent in left}
        )
        for intent in left:
            log.info("upload.goes_on", run_id=intent.run_id, attempt=intent.attempt, name=intent.name)
            await self.add(intent)
        self._loaded.set()
        with contextlib.suppress(BlobsUnavailableError):
            if count := await self._blobs.abort_uploads(ARTIFACTS_PREFIX, ABANDONED_AFTER):
                log.info("upload.abandoned_aborted", uploads=count)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="record-artifacts")
            while True:
                intent = await self._next()
                try:
                    spoilt = await self._send(intent)
                except BlobsUnavailableError as error:
                    await self._postpone(intent, error)
                    continue
                self.trouble, self._pause = "", MIN_RETRY_SECONDS
                if spoilt is not None:
                    self._recorder.add(Conclusion(intent, _spoilt_reason(spoilt)))
                elif intent.kind == CHECKPOINT and intent.after:
                    # One that waits for its telemetry must not delay the others.
                    group.create_task(self._record_in_order(intent), name=f"record-{intent.id}")
                else:
                    self._recorder.add(Conclusion(intent))

    async def _next(self) -> Intent:
        async with self._changed:
            await self._changed.wait_for(lambda: self._queue.unsent)
            return self._queue.take(time.monotonic())

    async def _postpone(self, intent: Intent, error: BlobsUnavailableError) -> None:
        """Wait and continue with other files: S3 may be unavailable, or may not accept this one."""
        self.trouble = str(error)
        log.warning("upload.waiting", run_id=intent.run_id, name=intent.name, error=self.trouble)
        self._queue.postpone(intent, time.monotonic() + POSTPONED_SECONDS)
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, MAX_RETRY_SECONDS)

    async def add(self, *intents: Intent) -> None:
        """Queue uploads."""
        async with self._changed:
            for intent in intents:
                self._queue.add(intent)
            self._changed.notify_all()

    def give_up(self, run_id: str, attempt: int, path: str, why: str) -> None:
        """Record that a file which was announced is not uploaded."""
        name = path[:MAX_NAME_LENGTH]
        intent = Intent(
            new_ulid(), run_id, attempt, kind="file", name=name, path=path, link="", digest="", size=0
        )
        self._recorder.add(Conclusion(intent, why))

    def checkpoints_due(self, run_id: str) -> int:
        """How many checkpoints of a run are not uploaded yet."""
        return self._queue.count_checkpoints(run_id)

    async def wait_until_loaded(self) -> None:
        """Wait until the uploads of an earlier process are queued."""
        await self._loaded.wait()

    def pending(self, run_id: str, attempt: int, history: list[Fact]) -> int:
        """How many files of an attempt are due and not on the log."""
        due = [each for each in self._queue.due.values() if (each.run_id, each.attempt) == (run_id, attempt)]
        recorded = {artifact_bytes(fact) for fact in history if fact.HasField("artifact_produced")}
        given_up = {
            (fact.attempt, fact.kind, fact.name, fact.digest)
            for fact in (fact.artifact_given_up for fact in history)
        }
        waiting = {
            artifact_bytes(Fact(artifact_produced=intent.fact()))
            for intent in due
            if (attempt, intent.kind, intent.name, intent.digest) not in given_up
        }
        return len(waiting - recorded)

    def take_spoilt(self, run_id: str) -> list[str]:
        """Names of the run's files that were gone or overwritten before they could be stored."""
        return self._spoilt.pop(run_id, [])

    def distrust(self, digest: str) -> None:
        """What S3 holds under this digest is damaged: the next upload replaces it."""
        self._distrusted.add(digest)

    async def wait_for_checkpoints(self, run_id: str, seconds: float) -> int:
        """Wait for the run's checkpoints to be stored, at most `seconds`; how many of its files are not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: not self.checkpoints_due(run_id))
        return self._queue.count(run_id)

    async def wait_until_empty(self) -> None:
        """Wait until every file is stored and recorded, however long that takes."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._queue.due)

    async def _send(self, intent: Intent) -> Exception | None:
        """Store a file; the error when it was removed or overwritten. Raises BlobsUnavailableError."""
        try:
            await self._store(intent)
        except (FileChangedError, OSError) as error:
            UPLOADS.labels("spoilt").inc()
            self._spoilt.setdefault(intent.run_id, []).append(intent.name)
            log.error("upload.spoilt", run_id=intent.run_id, name=intent.name, error=str(error))
            with contextlib.suppress(BlobsUnavailableError):
                await self._blobs.for_attempt(intent.run_id, intent.attempt).abort_uploads(intent.key)
            return error
        return None

    async def _record_in_order(self, intent: Intent) -> None:
        """A run may resume from a checkpoint: the telemetry before it must be on the stream first."""
        if await self._precedence.wait_for_batch(intent.run_id, intent.attempt, intent.after):
            self._recorder.add(Conclusion(intent))
            return
        UPLOADS.labels("refused").inc()
        self._recorder.add(Conclusion(intent, SUPERSEDED))

    async def _recorded(self, conclusions: Sequence[Conclusion], forget: bool) -> None:
        """Forget the intents of what is on the log."""
        if forget:
            await asyncio.to_thread(self.intents.forget, [conclusion.intent for conclusion in conclusions])
        for intent, given_up in conclusions:
            if forget and not given_up:
                UPLOADS.labels("stored").inc()
                log.info("upload.stored", run_id=intent.run_id, attempt=intent.attempt, name=intent.name)
        async with self._changed:
            for conclusion in conclusions:
                self._queue.remove(conclusion.intent)
            self._changed.notify_all()

    async def _store(self, intent: Intent) -> None:
        replace = intent.digest in self._distrusted
        with await asyncio.to_thread(open_intent, intent) as file:
            blobs = self._blobs.for_attempt(intent.run_id, intent.attempt)
            await blobs.store(file, intent.key, intent.digest, replace=replace)
        self._distrusted.discard(intent.digest)


def _spoilt_reason(error: Exception) -> str:
    if isinstance(error, FileChangedError):
        return "it was overwritten before it could be uploaded: write each one to a file of its own"
    return f"it was gone or overwritten before it could be uploaded ({error})"
