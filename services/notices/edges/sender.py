"""Sends pending notices: of each run and target one at a time, in order, claimed on the log first."""

from __future__ import annotations

import asyncio
import os
import socket

import structlog

from runspine.clock import now_micros
from runspine.eventlog import UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import Projector
from runspine.ids import new_ulid
from runspine.notice import history as decide
from runspine.notice.history import MICROS, NoticeEntry
from runspine.services.notices.core.projection import NoticeProjection
from runspine.services.notices.edges import metrics
from runspine.services.notices.edges.delivery import NoticeDelivery
from runspine.services.notices.edges.http_post import NotAcceptedError
from runspine.services.notices.edges.outbox import Outbox
from runspine.services.notices.settings import NoticesSettings
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import Fact, NoticeDue

log = structlog.get_logger()

IDLE_SECONDS = 5.0
# Pause after an answer of NATS that did not come.
OUTAGE_SECONDS = 1.0


class NoticeSender:
    """The loop that sends. A claim on the log keeps other processes from sending the same notice."""

    def __init__(
        self,
        projector: Projector,
        projection: NoticeProjection,
        outbox: Outbox,
        delivery: NoticeDelivery,
        settings: NoticesSettings,
    ) -> None:
        self._projector = projector
        self._book = projection.book
        self._outbox = outbox
        self._delivery = delivery
        self._settings = settings
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{new_ulid()[-6:].lower()}"
        # Accepted by their receivers, and not recorded as sent yet.
        self._accepted: set[str] = set()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._freed = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            while True:
                seen = self._projector.applied
                self._freed.clear()
                wait = self._start()
                metrics.PENDING.set(len(self._book.open))
                metrics.DEAD.set(len(self._book.dead_entries()))
                await self._pause(seen, wait)
        finally:
            for task in list(self._under_way.values()):
                await cancel_and_wait(task)

    def _start(self) -> float:
        """Start what can be sent now; seconds until the next that cannot."""
        now, wait = now_micros(), IDLE_SECONDS
        for run_id, entry in self._book.pending_heads():
            if entry.due.id in self._under_way:
                continue
            if not entry.is_free(self.holder, now):
                wait = min(wait, (entry.wakes_at(self.holder) - now) / MICROS)
            elif len(self._under_way) < self._settings.notices_parallel:
                task = asyncio.create_task(self._send(run_id, entry), name=f"notice-{entry.due.id}")
                self._under_way[entry.due.id] = task
                task.add_done_callback(lambda done, key=entry.due.id: self._finished(key, done))  # type: ignore[misc]
        return max(wait, 0.01)

    async def _pause(self, seen: int, seconds: float) -> None:
        """Wait for a commit, a place among those under way, or the time."""
        moved = asyncio.create_task(self._moved(seen))
        freed = asyncio.create_task(self._freed.wait())
        await asyncio.wait({moved, freed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_wait(moved)
        await cancel_and_wait(freed)

    async def _moved(self, seen: int) -> None:
        async for _ in self._projector.moves(IDLE_SECONDS):
            if self._projector.applied != seen:
                return

    def _finished(self, key: str, done: asyncio.Task[None]) -> None:
        self._under_way.pop(key, None)
        self._freed.set()
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("notice.failed", notice=key, error=repr(error))

    async def _send(self, run_id: str, entry: NoticeEntry) -> None:
        due, seconds = entry.due, self._settings.notices_claim_seconds
        try:
            claimed = await self._outbox.append(
                run_id, lambda found: decide.claim(found, due.id, self.holder, now_micros(), seconds)
            )
            if due.id in self._accepted:
                await self._record_sent(run_id, due)
            elif claimed:
                await self._try(run_id, due)
        except (UnknownOutcomeError, NatsUnreachableError) as error:
            log.warning("notice.later", notice=due.id, error=str(error))
            await asyncio.sleep(OUTAGE_SECONDS)

    async def _try(self, run_id: str, due: NoticeDue) -> None:
        kind = self._delivery.kind(due.target)
        try:
            await self._delivery.deliver(due)
        except NotAcceptedError as error:
            reason = str(error)
            metrics.FAILED.labels(kind).inc()
            log.warning("notice.not_accepted", notice=due.id, target=due.target, error=reason)
            await self._outbox.append(run_id, lambda found: self._failed(found, due, reason))
            return
        metrics.SENT.labels(kind).inc()
        self._accepted.add(due.id)
        await self._record_sent(run_id, due)

    async def _record_sent(self, run_id: str, due: NoticeDue) -> None:
        await self._outbox.append(run_id, lambda found: decide.sent(found, due.id, now_micros()))
        self._accepted.discard(due.id)

    def _failed(self, found: decide.NoticeHistory, due: NoticeDue, reason: str) -> list[Fact]:
        # The person who tests a channel wants to know now.
        tries = 1 if due.event == "test" else self._settings.notices_tries
        pause = self._settings.notices_pause_seconds
        return decide.failed(found, due.id, reason, now_micros(), max_tries=tries, first_pause=pause)
