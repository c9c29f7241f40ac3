"""Files on their way to S3. Each has its intent on disk until it is stored and on the log, exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import timedelta
from pathlib import Path

import structlog

from runspine.blobs import BlobsUnavailable, Changed
from runspine.file_blobs import FileBlobs
from runspine.log import Corrupt
from runspine.log.subjects import attempts_subject
from runspine.wire.v1.facts_pb2 import ArtifactGivenUp, Fact
from services.worker.artifact import CHECKPOINT, PREFIX, Intent, Intents
from services.worker.metrics import UPLOADS, UPLOADS_DUE
from services.worker.precedence import Precedence
from services.worker.recorder import Recorder, now

log = structlog.get_logger()

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
# So long others come before a file that S3 did not take.
REST = 10.0
# Parts of an upload that nobody has gone on with for so long are let go of.
ABANDONED = timedelta(days=2)
OVERTAKEN = "its attempt was given up before the steps that led to it were stored"


class Uploads:
    """All uploads of this worker, one at a time, checkpoints first."""

    def __init__(self, folder: Path, blobs: FileBlobs, recorder: Recorder, precedence: Precedence) -> None:
        self.intents = Intents(folder)
        self._blobs = blobs
        self._recorder = recorder
        self._precedence = precedence
        self._due: dict[str, Intent] = {}
        # Of those, the ids of what is in S3 and only has to be told.
        self._sent: set[str] = set()
        # Told one after another: they meet on the same subject.
        self._telling = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._loaded = asyncio.Event()
        self._distrusted: set[str] = set()
        self._spoilt: dict[str, list[str]] = {}
        # Until when each that S3 did not take lets the others go first.
        self._rests: dict[str, float] = {}
        self._pause = FIRST_PAUSE
        # What keeps S3 from answering, for people; empty while all is well.
        self.trouble = ""
        UPLOADS_DUE.set_function(lambda: len(self._due))

    async def run(self) -> None:
        """Send for ever, beginning with what an earlier process left."""
        left = await asyncio.to_thread(self.intents.left)
        await asyncio.to_thread(
            self._precedence.forget, {f"{intent.run_id}.{intent.attempt}" for intent in left}
        )
        for intent in left:
            log.info("upload.goes_on", run_id=intent.run_id, attempt=intent.attempt, name=intent.name)
            await self.add(intent)
        self._loaded.set()
        with contextlib.suppress(BlobsUnavailable):
            if count := await self._blobs.abort_uploads(PREFIX, ABANDONED):
                log.info("upload.abandoned_aborted", uploads=count)
        async with asyncio.TaskGroup() as telling:
            while True:
                intent = await self._next()
                try:
                    flaw = await self._send(intent)
                except BlobsUnavailable as error:
                    await self._put_off(intent, error)
                    continue
                self._rests.pop(intent.id, None)
                self.trouble, self._pause = "", FIRST_PAUSE
                self._sent.add(intent.id)
                # One that waits for its telemetry must not hold up the others.
                telling.create_task(self._finish(intent, flaw), name=f"tell-{intent.id}")

    async def _next(self) -> Intent:
        async with self._changed:
            await self._changed.wait_for(self._unsent)
            return min(self._unsent(), key=self._turn)

    def _unsent(self) -> list[Intent]:
        return [intent for intent in self._due.values() if intent.id not in self._sent]

    def _turn(self, due: Intent) -> tuple[float, bool, str]:
        """Whatever S3 did not take comes last for a while, then again in its turn."""
        rest = self._rests.get(due.id, 0.0)
        return (rest if rest > time.monotonic() else 0.0, due.kind != CHECKPOINT, due.id)

    async def _put_off(self, intent: Intent, error: BlobsUnavailable) -> None:
        """S3 may be away, then all wait; or it does not want this one, then the others come first."""
        self.trouble = str(error)
        log.warning("upload.waiting", run_id=intent.run_id, name=intent.name, error=self.trouble)
        self._rests[intent.id] = time.monotonic() + REST
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def add(self, intent: Intent) -> None:
        async with self._changed:
            self._due[intent.id] = intent
            self._changed.notify_all()

    def checkpoints_due(self, run_id: str) -> int:
        return sum(due.run_id == run_id and due.kind == CHECKPOINT for due in self._due.values())

    async def loaded(self) -> None:
        """Until what an earlier process left is known."""
        await self._loaded.wait()

    def pending(self, run_id: str, attempt: int, history: list[Fact]) -> int:
        """How many of the attempt's files the log has not heard of."""
        due = [each for each in self._due.values() if (each.run_id, each.attempt) == (run_id, attempt)]
        told = {_plain(fact) for fact in history if fact.HasField("artifact_produced")}
        given_up = {
            (said.attempt, said.kind, said.name, said.digest)
            for said in (fact.artifact_given_up for fact in history)
        }
        waiting = {
            intent.fact().SerializeToString(deterministic=True)
            for intent in due
            if (attempt, intent.kind, intent.name, intent.digest) not in given_up
        }
        return len(waiting - told)

    def take_spoilt(self, run_id: str) -> list[str]:
        """Names of the run's files that were gone or overwritten before they could be stored."""
        return self._spoilt.pop(run_id, [])

    def distrust(self, digest: str) -> None:
        """What S3 holds under this digest is damaged: the next upload replaces it."""
        self._distrusted.add(digest)

    async def settled(self, run_id: str, seconds: float) -> int:
        """Wait until the run's checkpoints are stored, or for so long; how many of its files are not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: not self.checkpoints_due(run_id))
        return sum(due.run_id == run_id for due in self._due.values())

    async def emptied(self) -> None:
        """Until every file is stored and told, however long that takes."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._due)

    async def _send(self, intent: Intent) -> Exception | None:
        """Store it; what has spoilt the file, if something has. Raises BlobsUnavailable."""
        try:
            await self._store(intent)
        except (Changed, OSError) as error:
            UPLOADS.labels("spoilt").inc()
            self._spoilt.setdefault(intent.run_id, []).append(intent.name)
            log.error("upload.spoilt", run_id=intent.run_id, name=intent.name, error=str(error))
            with contextlib.suppress(BlobsUnavailable):
                await self._blobs.abort_uploads(intent.key)
            return error
        return None

    async def _finish(self, intent: Intent, flaw: Exception | None) -> None:
        """Tell the log that it is stored, or that it is given up."""
        try:
            await self._conclude(intent, flaw)
            await asyncio.to_thread(self.intents.forget, intent)
        except Corrupt as error:
            # The run's log is damaged: the intent stays, for when it has been mended.
            log.error("upload.corrupt_log", run_id=intent.run_id, name=intent.name, error=str(error))
        async with self._changed:
            del self._due[intent.id]
            self._sent.discard(intent.id)
            self._changed.notify_all()

    async def _conclude(self, intent: Intent, flaw: Exception | None) -> None:
        good = flaw is None and await self._may_be_told(intent)
        async with self._telling:
            if good:
                await self._tell(intent)
                UPLOADS.labels("stored").inc()
                log.info("upload.stored", run_id=intent.run_id, attempt=intent.attempt, name=intent.name)
            elif flaw is not None:
                await self._give_up(intent, _why_spoilt(flaw))
            else:
                UPLOADS.labels("refused").inc()
                await self._give_up(intent, OVERTAKEN)

    async def _may_be_told(self, intent: Intent) -> bool:
        """A checkpoint may be gone on from: then what led to it must be on record."""
        if intent.kind != CHECKPOINT or not intent.after:
            return True
        return await self._precedence.reached(intent.run_id, intent.attempt, intent.after)

    async def _store(self, intent: Intent) -> None:
        replace = intent.digest in self._distrusted
        await self._blobs.store(intent.file, intent.key, intent.digest, replace=replace)
        self._distrusted.discard(intent.digest)

    async def _tell(self, intent: Intent) -> None:
        fact = Fact(at=now(), artifact_produced=intent.fact())
        said = _plain(fact)

        def unless_told(history: list[Fact]) -> list[Fact]:
            return [] if any(_plain(old) == said for old in history) else [fact]

        await self._recorder.settle(attempts_subject(intent.run_id), unless_told)

    async def _give_up(self, intent: Intent, why: str) -> None:
        said = ArtifactGivenUp(
            attempt=intent.attempt, kind=intent.kind, name=intent.name, reason=why, digest=intent.digest
        )
        fact = Fact(at=now(), artifact_given_up=said)
        await self._recorder.settle(
            attempts_subject(intent.run_id),
            lambda history: [] if any(old.artifact_given_up == said for old in history) else [fact],
        )


def _why_spoilt(flaw: Exception) -> str:
    if isinstance(flaw, Changed):
        return "it was overwritten before it could be uploaded: write each one to a file of its own"
    return f"it was gone or overwritten before it could be uploaded ({flaw})"


def _plain(fact: Fact) -> bytes:
    """The artifact of a fact, to compare by: as bytes, because NaN is not equal to itself."""
    return fact.artifact_produced.SerializeToString(deterministic=True)
