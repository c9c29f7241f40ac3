"""The offer source of a worker for one run, as a launcher starts it: reads the log, not the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from runspine.clock import now_micros
from runspine.domain.defaults import DEFAULT_POOL
from runspine.domain.run import ENDED, fold
from runspine.domain.run.rest import rests
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.subjects import attempts_subject, run_subject
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.claim.offers import OfferLease, OfferQueue
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.outcome import is_taken
from runspine.services.worker.metrics import OFFERS
from runspine.wire.v1.run_pb2 import QUEUED, SUBMITTED, Offer

log = structlog.get_logger()

POLL_SECONDS = 1.0
# How long a run may be unknown: the launcher may have read a replica that is ahead of this one.
MAX_UNKNOWN_SECONDS = 30.0


class SingleRun(OfferQueue):
    """Offers one attempt of one run. Two workers for it are harmless: the log is the lock."""

    def __init__(
        self,
        link: NatsConnection,
        run_id: str,
        fact_writer: FactWriter,
        uploads: Uploads,
        leave: Callable[[], None],
    ) -> None:
        super().__init__(link, [])
        self._run_id = run_id
        self._fact_writer = fact_writer
        self._uploads = uploads
        self._leave = leave
        self._over = False
        self._pause = 0.0

    async def next(self) -> OfferLease:
        """The run as an offer, once it is queued; after its attempt the worker leaves."""
        waited = 0.0
        while not self._over:
            await asyncio.sleep(self._pause)
            self._pause = POLL_SECONDS
            run = fold(await self._fact_writer.read(run_subject(self._run_id)))
            if run.phase in ENDED or (not run.id and waited > MAX_UNKNOWN_SECONDS):
                log.info("run.not_waiting", run_id=self._run_id, phase=run.phase)
                break
            waited += POLL_SECONDS
            if not run.id or run.phase == SUBMITTED or rests(run, now_micros()):
                continue
            history = await self._fact_writer.read(attempts_subject(self._run_id))
            if run.phase != QUEUED or is_taken(history, run.attempt):
                log.info("run.taken_already", run_id=self._run_id, attempt=run.attempt)
                break
            offer = Offer(
                run_id=run.id, attempt=run.attempt, pool=run.spec.pool or DEFAULT_POOL, priority=run.priority
            )
            return OfferLease(offer, "")
        # No other process uploads what this worker still holds.
        await self._uploads.wait_until_empty()
        self._leave()
        return await asyncio.Future()

    async def acknowledge(self, lease: OfferLease, answer: str) -> None:
        OFFERS.labels(answer).inc()
        self._over = True

    async def hold(self, lease: OfferLease) -> None:
        """Nothing to extend: this offer is on no queue."""
        await asyncio.Future()

    async def give_back(self, reply: str, delay: float) -> None:
        OFFERS.labels("given_back").inc()
        self._pause = delay
