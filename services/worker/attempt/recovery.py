"""Closes attempts that have no AttemptExited: after a restart, or when the worker failed one.

First every process of the attempt is ended. Until that is certain the attempt stays in the worker's
heartbeats and the worker claims nothing, so that no other attempt trains at the same time. Then the run
must not wait for long: after a few seconds LOST is recorded, and the rest of the spool follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from runspine.clock import now_micros
from runspine.domain.dataset_tag import dataset_tag
from runspine.domain.run import fold
from runspine.eventlog import CorruptError
from runspine.eventlog.subjects import attempts_subject, run_subject
from runspine.services.worker.artifacts.collector import ArtifactCollector
from runspine.services.worker.artifacts.pending import PendingArtifacts
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.journal import Journal, JournalEntry
from runspine.services.worker.facts.outcome import is_open
from runspine.services.worker.process.environment import known_secrets
from runspine.services.worker.process.survivors import end_survivors
from runspine.services.worker.process.trainer_process import REAPER_LOCK
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.telemetry.unshipped import UnshippedSpools
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import LOST, AttemptExited, Fact, Progress

log = structlog.get_logger()

# How long killed processes may take to disappear before this is logged as an error, each time.
SURVIVOR_SECONDS = 3.0
# Telemetry is shipped before AttemptExited, unless that takes longer.
SHIP_FIRST_SECONDS = 5.0
RESTARTED = "the worker was restarted; its trainer ended with it"


@dataclass(slots=True)
class ClosingAttempt:
    """An attempt that is being closed, as heartbeats report it."""

    run_id: str
    number: int
    progress: Progress = field(default_factory=Progress)


class Recovery:
    """Records LOST for attempts without an end, and ships their telemetry and files."""

    def __init__(
        self,
        journal: Journal,
        fact_writer: FactWriter,
        unshipped: UnshippedSpools,
        uploads: Uploads,
        announcements: Path,
        worker_id: str,
        environment: Mapping[str, str],
    ) -> None:
        self._journal = journal
        self._fact_writer = fact_writer
        self._unshipped = unshipped
        self._uploads = uploads
        self._announcements = announcements
        self._worker_id = worker_id
        self._environment = environment
        self._closing: dict[str, ClosingAttempt] = {}
        self._background: set[asyncio.Task[None]] = set()

    @property
    def closing(self) -> Iterable[ClosingAttempt]:
        """Attempts that are being closed now."""
        return self._closing.values()

    async def recover(self) -> None:
        """Close every attempt in the journal. New offers are claimed only after that."""
        entries = self._journal.entries()
        self._closing = {entry.name: ClosingAttempt(entry.run_id, entry.attempt) for entry in entries}
        self._start(self._unshipped.sweep(entries))
        tasks = [asyncio.ensure_future(self.close(entry, RESTARTED)) for entry in entries]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_and_wait(*tasks)

    async def close(self, entry: JournalEntry, reason: str) -> None:
        """Record LOST with the known counts, and ship the attempt's telemetry and files."""
        closing = self._closing.setdefault(entry.name, ClosingAttempt(entry.run_id, entry.attempt))
        try:
            await self._end_processes(entry)
            closing.progress = await self._unshipped.last_progress(entry)
            await self._close(entry, reason, closing.progress)
        except CorruptError as error:
            log.error("recovery.corrupt", run_id=entry.run_id, attempt=entry.attempt, error=str(error))
        finally:
            self._closing.pop(entry.name, None)

    async def _end_processes(self, entry: JournalEntry) -> None:
        """Return when no process of the attempt is left, however long that takes.

        While one is left (in uninterruptible sleep) it may still train: heartbeats hold the lease.
        """
        lock = Path(entry.directory) / REAPER_LOCK
        while not await asyncio.to_thread(end_survivors, lock, SURVIVOR_SECONDS):
            log.error("recovery.reaper_alive", run_id=entry.run_id, attempt=entry.attempt)

    async def leave(self) -> None:
        """Stop; what is not shipped is left for the next start."""
        await cancel_and_wait(*self._background)

    async def _close(self, entry: JournalEntry, reason: str, progress: Progress) -> None:
        shipping = asyncio.ensure_future(self._unshipped.ship(entry))
        try:
            await self._uploads.wait_until_loaded()
            await self._collect_announced(entry)
            await asyncio.wait({shipping}, timeout=SHIP_FIRST_SECONDS)
            await self._declare_lost(entry, reason, progress)
            if shipping.done():
                shipping.result()
                await asyncio.to_thread(self.forget, entry)
                return
        except BaseException:
            await cancel_and_wait(shipping)
            raise
        log.info("spool.follows", run_id=entry.run_id, attempt=entry.attempt)
        self._start(self._ship_rest(shipping, entry))

    async def _ship_rest(self, shipping: asyncio.Future[None], entry: JournalEntry) -> None:
        try:
            await shipping
            await asyncio.to_thread(self.forget, entry)
        except CorruptError as error:
            log.error("recovery.corrupt", run_id=entry.run_id, attempt=entry.attempt, error=str(error))
        finally:
            await cancel_and_wait(shipping)

    async def _collect_announced(self, entry: JournalEntry) -> None:
        """Collect the artifacts that the trainer announced and the earlier worker process did not collect."""
        announced = PendingArtifacts(self._announcements, entry.name)
        if not await asyncio.to_thread(announced.left):
            return
        spec = fold(await self._fact_writer.read(run_subject(entry.run_id))).spec
        redact = Redactor(known_secrets(spec, self._environment))
        run_dir = Path(entry.directory)
        collector = ArtifactCollector(
            self._uploads,
            announced,
            entry.run_id,
            entry.attempt,
            run_dir,
            redact,
            self._note,
            dataset_tag(spec),
        )
        await collector.collect_announced()

    async def _note(self, text: str) -> None:
        log.warning("artifact.not_taken_up", why=text)

    async def _declare_lost(self, entry: JournalEntry, reason: str, progress: Progress) -> None:
        exited = AttemptExited(
            attempt=entry.attempt,
            worker_id=self._worker_id,
            outcome=LOST,
            reason=reason,
            counts=progress.counts if progress.HasField("counts") else None,
            progress=progress if progress.HasField("counts") else None,
        )
        fact = Fact(at=now_micros(), attempt_exited=exited)

        def unless_recorded(history: list[Fact]) -> list[Fact]:
            if not is_open(history, entry.attempt, self._worker_id):
                return []
            pending = self._uploads.pending(entry.run_id, entry.attempt, history)
            fact.attempt_exited.artifacts_pending = pending
            return [fact]

        if await self._fact_writer.commit(attempts_subject(entry.run_id), unless_recorded):
            log.warning("attempt.lost", run_id=entry.run_id, attempt=entry.attempt, reason=reason)

    def forget(self, entry: JournalEntry) -> None:
        """Remove the local records of an attempt whose end is on the log. Blocks."""
        self._journal.remove(entry)
        self._unshipped.forget(entry)
        PendingArtifacts(self._announcements, entry.name).remove()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
