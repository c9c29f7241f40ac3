"""Closing attempts that ended without their own word: after a restart, or when the worker failed one.

While that takes time, the attempt is in the worker's beats: nobody shall take the run for unheard of and
drop what is still spooled. But its trainer is dead, so the run must not wait for long either: after a
few seconds the end is told, and the rest of the spool follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from runspine.log import Corrupt
from runspine.log.subjects import attempts_subject, run_subject
from runspine.run import fold
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import LOST, AttemptExited, Fact, Progress
from services.worker.announced import Announced
from services.worker.desk import Desk
from services.worker.environment import known_secrets
from services.worker.journal import Entry, Journal
from services.worker.leftovers import Leftovers
from services.worker.recorder import Recorder, now
from services.worker.redact import Redactor
from services.worker.trainer import wait_for_keeper
from services.worker.uploads import Uploads
from services.worker.verdict import is_open

log = structlog.get_logger()

KEEPER_SECONDS = 20.0
# What the trainer said comes before the word that it ended, if that does not take longer.
PROMPT_SECONDS = 5.0
RESTARTED = "the worker was restarted; its trainer ended with it"


@dataclass(slots=True)
class Closing:
    """An attempt whose end is about to be told, as beats have it."""

    run_id: str
    number: int
    progress: Progress = field(default_factory=Progress)


class Recovery:
    def __init__(
        self,
        journal: Journal,
        recorder: Recorder,
        leftovers: Leftovers,
        uploads: Uploads,
        announcements: Path,
        worker_id: str,
        environment: Mapping[str, str],
    ) -> None:
        self._journal = journal
        self._recorder = recorder
        self._leftovers = leftovers
        self._uploads = uploads
        self._announcements = announcements
        self._worker_id = worker_id
        self._environment = environment
        self._closing: dict[str, Closing] = {}
        self._rest: set[asyncio.Task[None]] = set()

    @property
    def closing(self) -> Iterable[Closing]:
        return self._closing.values()

    async def recover(self) -> None:
        """Close every attempt in the journal. Only then may new offers be taken."""
        entries = self._journal.entries()
        self._closing = {entry.name: Closing(entry.run_id, entry.attempt) for entry in entries}
        self._later(self._leftovers.sweep(entries))
        tasks = [asyncio.ensure_future(self.close(entry, RESTARTED)) for entry in entries]
        try:
            await asyncio.gather(*tasks)
        finally:
            await put_down(*tasks)

    async def close(self, entry: Entry, reason: str) -> None:
        """Say LOST, with what is known of it, and see to it that its telemetry and files arrive."""
        closing = self._closing.setdefault(entry.name, Closing(entry.run_id, entry.attempt))
        try:
            lock = Path(entry.directory) / "keeper.lock"
            if not await asyncio.to_thread(wait_for_keeper, lock, KEEPER_SECONDS):
                # Its trainer may still run: whoever looks at the run must not start it again from here.
                log.error("recovery.keeper_lives", run_id=entry.run_id, attempt=entry.attempt)
                return
            closing.progress = await self._leftovers.told(entry)
            await self._close(entry, reason, closing.progress)
        except Corrupt as error:
            log.error("recovery.corrupt", run_id=entry.run_id, attempt=entry.attempt, error=str(error))
        finally:
            self._closing.pop(entry.name, None)

    async def leave(self) -> None:
        """Stop; what is not shipped is left to the next start."""
        await put_down(*self._rest)

    async def _close(self, entry: Entry, reason: str, progress: Progress) -> None:
        shipping = asyncio.ensure_future(self._leftovers.ship(entry))
        try:
            await self._uploads.loaded()
            await self._take_up_files(entry)
            await asyncio.wait({shipping}, timeout=PROMPT_SECONDS)
            await self._declare_lost(entry, reason, progress)
            if shipping.done():
                shipping.result()
                await asyncio.to_thread(self.forget, entry)
                return
        except BaseException:
            await put_down(shipping)
            raise
        log.info("spool.follows", run_id=entry.run_id, attempt=entry.attempt)
        self._later(self._ship_on(shipping, entry))

    async def _ship_on(self, shipping: asyncio.Future[None], entry: Entry) -> None:
        try:
            await shipping
            await asyncio.to_thread(self.forget, entry)
        except Corrupt as error:
            log.error("recovery.corrupt", run_id=entry.run_id, attempt=entry.attempt, error=str(error))
        finally:
            await put_down(shipping)

    async def _take_up_files(self, entry: Entry) -> None:
        """Hand in what the trainer had announced, if its process before us had no time to."""
        announced = Announced(self._announcements, entry.name)
        if not await asyncio.to_thread(announced.left):
            return
        spec = fold((await self._recorder.read(run_subject(entry.run_id)))[0]).spec
        redact = Redactor(known_secrets(spec, self._environment))
        run_dir = Path(entry.directory)
        desk = Desk(self._uploads, announced, entry.run_id, entry.attempt, run_dir, redact, self._note)
        await desk.take_up()

    async def _note(self, text: str) -> None:
        log.warning("artifact.not_taken_up", why=text)

    async def _declare_lost(self, entry: Entry, reason: str, progress: Progress) -> None:
        exited = AttemptExited(
            attempt=entry.attempt,
            worker_id=self._worker_id,
            outcome=LOST,
            reason=reason,
            counts=progress.counts if progress.HasField("counts") else None,
            progress=progress if progress.HasField("counts") else None,
        )
        fact = Fact(at=now(), attempt_exited=exited)

        def unless_told(history: list[Fact]) -> list[Fact]:
            if not is_open(history, entry.attempt, self._worker_id):
                return []
            pending = self._uploads.pending(entry.run_id, entry.attempt, history)
            fact.attempt_exited.artifacts_pending = pending
            return [fact]

        if await self._recorder.settle(attempts_subject(entry.run_id), unless_told):
            log.warning("attempt.lost", run_id=entry.run_id, attempt=entry.attempt, reason=reason)

    def forget(self, entry: Entry) -> None:
        """Its end is on the log. Blocks."""
        self._journal.remove(entry)
        self._leftovers.forget(entry)
        Announced(self._announcements, entry.name).remove()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._rest.add(task)
        task.add_done_callback(self._rest.discard)
