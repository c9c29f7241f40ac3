"""A worker for one run: what a launcher starts on Kubernetes or Ray. It asks the log instead of the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from runspine.log.link import Link
from runspine.log.subjects import attempts_subject, run_subject
from runspine.run import ENDED, fold
from runspine.run.rest import rests
from runspine.wire.v1.run_pb2 import QUEUED, SUBMITTED, Offer
from services.worker.metrics import OFFERS
from services.worker.offers import Lease, Offers
from services.worker.recorder import Recorder, now
from services.worker.uploads import Uploads
from services.worker.verdict import is_taken

log = structlog.get_logger()

LOOK_SECONDS = 1.0
# How long a run may be unknown: the launcher may have read a replica that is ahead of ours.
UNKNOWN_SECONDS = 30.0


class OneRun(Offers):
    """One attempt of one run, then nothing more. Two workers for it are harmless: the log is the lock."""

    def __init__(
        self, link: Link, run_id: str, recorder: Recorder, uploads: Uploads, leave: Callable[[], None]
    ) -> None:
        super().__init__(link, [])
        self._run_id = run_id
        self._recorder = recorder
        self._uploads = uploads
        self._leave = leave
        self._over = False
        self._pause = 0.0

    async def next(self) -> Lease:
        """The run as if it had been offered; once it is over, the worker leaves."""
        waited = 0.0
        while not self._over:
            await asyncio.sleep(self._pause)
            self._pause = LOOK_SECONDS
            run = fold((await self._recorder.read(run_subject(self._run_id)))[0])
            if run.phase in ENDED or (not run.id and waited > UNKNOWN_SECONDS):
                log.info("run.not_waiting", run_id=self._run_id, phase=run.phase)
                break
            waited += LOOK_SECONDS
            if not run.id or run.phase == SUBMITTED or rests(run, now()):
                continue
            history, _ = await self._recorder.read(attempts_subject(self._run_id))
            if run.phase != QUEUED or is_taken(history, run.attempt):
                log.info("run.taken_already", run_id=self._run_id, attempt=run.attempt)
                break
            offer = Offer(
                run_id=run.id, attempt=run.attempt, pool=run.spec.pool or "default", priority=run.priority
            )
            return Lease(offer, "")
        # Nobody else will send what this worker still holds.
        await self._uploads.emptied()
        self._leave()
        return await asyncio.Future()

    async def acknowledge(self, lease: Lease, answer: str) -> None:
        OFFERS.labels(answer).inc()
        self._over = True

    async def hold(self, lease: Lease) -> None:
        """Nobody else waits for it."""
        await asyncio.Future()

    async def give_back(self, reply: str, delay: float) -> None:
        OFFERS.labels("given_back").inc()
        self._pause = delay
