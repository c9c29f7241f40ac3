"""Uploads of artifacts to S3. Each has its intent on disk until it is stored and on the log, exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import timedelta
from pathlib import Path

import structlog

from runspine.clock import now_micros
from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.eventlog import CorruptError
from runspine.eventlog.subjects import attempts_subject
from runspine.services.worker.artifacts.intents import Intent, Intents
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.metrics import UPLOADS, UPLOADS_DUE
from runspine.services.worker.telemetry.precedence import Precedence
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs, FileChangedError
from runspine.storage.keys import ARTIFACTS_PREFIX
from runspine.wire.v1.facts_pb2 import ArtifactGivenUp, Fact

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
        self._fact_writer = fact_writer
        self._precedence = precedence
        self._due: dict[str, Intent] = {}
        # Of those, the ids of what is in S3 and only has to be recorded.
        self._sent: set[str] = set()
        # Facts are appended one after another: they conflict on the same subject.
        self._recording = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._loaded = asyncio.Event()
        self._distrusted: set[str] = set()
        self._spoilt: dict[str, list[str]] = {}
        # Until when each file that S3 did not accept comes after the others.
        self._postponed: dict[str, float] = {}
        self._pause = MIN_RETRY_SECONDS
        # Why S3 does not accept uploads, for people; empty while it does.
        self.trouble = ""
        UPLOADS_DUE.set_function(lambda: len(self._due))

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
        async with asyncio.TaskGroup() as recording:
            while True:
                intent = await self._next()
                try:
                    spoilt = await self._send(intent)
                except BlobsUnavailableError as error:
                    await self._postpone(intent, error)
                    continue
                self._postponed.pop(intent.id, None)
                self.trouble, self._pause = "", MIN_RETRY_SECONDS
                self._sent.add(intent.id)
                # One that waits for its telemetry must not delay the others.
                recording.create_task(self._finish(intent, spoilt), name=f"record-{intent.id}")

    async def _next(self) -> Intent:
        async with self._changed:
            await self._changed.wait_for(self._unsent)
            return min(self._unsent(), key=self._turn)

    def _unsent(self) -> list[Intent]:
        return [intent for intent in self._due.values() if intent.id not in self._sent]

    def _turn(self, due: Intent) -> tuple[float, bool, str]:
        """Sort key: files that S3 did not accept come last for a while, else checkpoints first."""
        until = self._postponed.get(due.id, 0.0)
        return (until if until > time.monotonic() else 0.0, due.kind != CHECKPOINT, due.id)

    async def _postpone(self, intent: Intent, error: BlobsUnavailableError) -> None:
        """Wait and continue with other files: S3 may be unavailable, or may not accept this one."""
        self.trouble = str(error)
        log.warning("upload.waiting", run_id=intent.run_id, name=intent.name, error=self.trouble)
        self._postponed[intent.id] = time.monotonic() + POSTPONED_SECONDS
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, MAX_RETRY_SECONDS)

    async def add(self, intent: Intent) -> None:
        """Queue an upload."""
        async with self._changed:
            self._due[intent.id] = intent
            self._changed.notify_all()

    def checkpoints_due(self, run_id: str) -> int:
        """How many checkpoints of a run are not uploaded yet."""
        return sum(due.run_id == run_id and due.kind == CHECKPOINT for due in self._due.values())

    async def wait_until_loaded(self) -> None:
        """Wait until the uploads of an earlier process are queued."""
        await self._loaded.wait()

    def pending(self, run_id: str, attempt: int, history: list[Fact]) -> int:
        """How many files of an attempt are due and not on the log."""
        due = [each for each in self._due.values() if (each.run_id, each.attempt) == (run_id, attempt)]
        recorded = {_artifact_bytes(fact) for fact in history if fact.HasField("artifact_produced")}
        given_up = {
            (fact.attempt, fact.kind, fact.name, fact.digest)
            for fact in (fact.artifact_given_up for fact in history)
        }
        waiting = {
            intent.fact().SerializeToString(deterministic=True)
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
        return sum(due.run_id == run_id for due in self._due.values())

    async def wait_until_empty(self) -> None:
        """Wait until every file is stored and recorded, however long that takes."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._due)

    async def _send(self, intent: Intent) -> Exception | None:
        """Store a file; the error when it was removed or overwritten. Raises BlobsUnavailableError."""
        try:
            await self._store(intent)
        except (FileChangedError, OSError) as error:
            UPLOADS.labels("spoilt").inc()
            self._spoilt.setdefault(intent.run_id, []).append(intent.name)
            log.error("upload.spoilt", run_id=intent.run_id, name=intent.name, error=str(error))
            with contextlib.suppress(BlobsUnavailableError):
                await self._blobs.abort_uploads(intent.key)
            return error
        return None

    async def _finish(self, intent: Intent, spoilt: Exception | None) -> None:
        """Record ArtifactProduced or ArtifactGivenUp, and forget the intent."""
        try:
            await self._conclude(intent, spoilt)
            await asyncio.to_thread(self.intents.forget, intent)
        except CorruptError as error:
            # The run's log is damaged: the intent stays until it has been repaired.
            log.error("upload.corrupt_log", run_id=intent.run_id, name=intent.name, error=str(error))
        async with self._changed:
            del self._due[intent.id]
            self._sent.discard(intent.id)
            self._changed.notify_all()

    async def _conclude(self, intent: Intent, spoilt: Exception | None) -> None:
        good = spoilt is None and await self._may_be_recorded(intent)
        async with self._recording:
            if good:
                await self._record(intent)
                UPLOADS.labels("stored").inc()
                log.info("upload.stored", run_id=intent.run_id, attempt=intent.attempt, name=intent.name)
            elif spoilt is not None:
                await self._give_up(intent, _spoilt_reason(spoilt))
            else:
                UPLOADS.labels("refused").inc()
                await self._give_up(intent, SUPERSEDED)

    async def _may_be_recorded(self, intent: Intent) -> bool:
        """A run may resume from a checkpoint: the telemetry before it must be on the stream first."""
        if intent.kind != CHECKPOINT or not intent.after:
            return True
        return await self._precedence.wait_for_batch(intent.run_id, intent.attempt, intent.after)

    async def _store(self, intent: Intent) -> None:
        replace = intent.digest in self._distrusted
        await self._blobs.store(intent.file, intent.key, intent.digest, replace=replace)
        self._distrusted.discard(intent.digest)

    async def _record(self, intent: Intent) -> None:
        fact = Fact(at=now_micros(), artifact_produced=intent.fact())
        artifact = _artifact_bytes(fact)

        def unless_recorded(history: list[Fact]) -> list[Fact]:
            return [] if any(_artifact_bytes(old) == artifact for old in history) else [fact]

        await self._fact_writer.commit(attempts_subject(intent.run_id), unless_recorded)

    async def _give_up(self, intent: Intent, why: str) -> None:
        given_up = ArtifactGivenUp(
            attempt=intent.attempt, kind=intent.kind, name=intent.name, reason=why, digest=intent.digest
        )
        fact = Fact(at=now_micros(), artifact_given_up=given_up)
        await self._fact_writer.commit(
            attempts_subject(intent.run_id),
            lambda history: [] if any(old.artifact_given_up == given_up for old in history) else [fact],
        )


def _spoilt_reason(error: Exception) -> str:
    if isinstance(error, FileChangedError):
        return "it was overwritten before it could be uploaded: write each one to a file of its own"
    return f"it was gone or overwritten before it could be uploaded ({error})"


def _artifact_bytes(fact: Fact) -> bytes:
    """The artifact of a fact for comparison: bytes, because NaN is not equal to itself."""
    return fact.artifact_produced.SerializeToString(deterministic=True)
