"""The worker: slots, what fills them, and a clean end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import structlog

from runspine.file_blobs import FileBlobs
from runspine.log import EventLog
from runspine.log.link import Link
from runspine.log.publisher import Publisher
from runspine.runners import Runner
from runspine.tasks import put_down
from services.worker.announced import Announced
from services.worker.attempt import Attempt
from services.worker.capacity import Room, measure
from services.worker.cgroup import claim_subtree
from services.worker.gpu import find_gpus
from services.worker.journal import Journal
from services.worker.leftovers import Leftovers
from services.worker.metrics import BACKLOG, BUSY, SLOTS
from services.worker.offers import Lease, Offers
from services.worker.once import OneRun
from services.worker.precedence import Precedence
from services.worker.recorder import Recorder
from services.worker.recovery import Recovery
from services.worker.roster import Held, Roster
from services.worker.settings import WorkerSettings
from services.worker.spools import Spools
from services.worker.taking import Claim, Taker
from services.worker.trainer import adopt_orphans
from services.worker.uploads import Uploads
from services.worker.verdict import handed_back

log = structlog.get_logger()

OFFLINE_SECONDS = 3.0
# How long a cancelled attempt may take to end its trainer before it is cancelled again.
LATE_SECONDS = 5.0
T = TypeVar("T")


class Draining(Exception):
    """The worker was asked to stop."""


class Worker:
    def __init__(
        self,
        settings: WorkerSettings,
        link: Link,
        event_log: EventLog,
        publisher: Publisher,
        blobs: FileBlobs,
        runners: Mapping[str, Runner],
    ) -> None:
        self._settings = settings
        self._link = link
        self._log = event_log
        self._publisher = publisher
        self._blobs = blobs
        self._runners = runners
        self._recorder = Recorder(event_log)
        self._journal = Journal(settings.worker_dir)
        self._spools = Spools(settings.worker_dir, int(settings.spool_mib * (1 << 20)))
        precedence = Precedence(self._spools, self._recorder, settings.worker_id)
        self._uploads = Uploads(settings.worker_dir / "uploads", blobs, self._recorder, precedence)
        self._offers = (
            OneRun(link, settings.worker_only_run, self._recorder, self._uploads, self._drain)
            if settings.worker_only_run
            else Offers(link, settings.pools)
        )
        self._announcements = settings.worker_dir / "announced"
        self._recovery = Recovery(
            self._journal,
            self._recorder,
            Leftovers(self._spools, publisher, precedence),
            self._uploads,
            self._announcements,
            settings.worker_id,
            os.environ,
        )
        gpus = find_gpus(settings.worker_gpus, os.environ)
        self._room = Room(measure(gpus), gpus)
        self._taker = Taker(
            settings,
            self._recorder,
            self._offers,
            self._journal,
            runners,
            room=self._room,
            blobs=blobs,
            uploads=self._uploads,
        )
        self._roster = Roster(settings, link, self._recorder)
        self._held: dict[str, Attempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(settings.worker_slots)
        self._draining = asyncio.Event()
        SLOTS.set(settings.worker_slots)
        BUSY.set_function(lambda: len(self._held))
        BACKLOG.set_function(lambda: publisher.waiting)

    async def serve(self) -> None:
        """Work until cancelled, then drain; being cancelled again changes nothing."""
        work = asyncio.create_task(self._work(), name="worker")
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                self._drain()
        work.result()

    async def _work(self) -> None:
        adopt_orphans()
        claim_subtree()
        uploads = asyncio.create_task(self._uploads.run(), name="uploads")
        # They never end by themselves: if they fail, so does the worker, in good order.
        uploads.add_done_callback(lambda _: self._drain())
        beats = asyncio.create_task(self._roster.beat(self._spoken_for, self._taker.waiting), name="beats")
        try:
            await self._unless_draining(self._recovery.recover())
            # A worker of one run is no part of the fleet: nothing else can be given to it.
            if not self._settings.worker_only_run:
                await self._unless_draining(self._roster.online(self._runners, self._room.capacity))
            log.info("worker.online", worker_id=self._settings.worker_id, pools=self._settings.pools)
            while True:
                await self._take_one()
        except Draining:
            await self._leave()
        finally:
            await self._recovery.leave()
            await self._roster.leave()
            await put_down(uploads, beats)
        if not uploads.cancelled():
            uploads.result()

    def _spoken_for(self) -> list[Held]:
        """What is under way, and what ended without a word and is being closed."""
        return [*self._held.values(), *self._recovery.closing]

    async def _take_one(self) -> None:
        """Wait for a free slot, then for an offer to fill it."""
        await self._unless_draining(self._slots.acquire())
        try:
            lease = await self._unless_draining(self._offers.next())
        except BaseException:
            self._slots.release()
            raise
        task = asyncio.create_task(self._hold(lease), name=f"hold-{lease.offer.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._slots.release())

    async def _hold(self, lease: Lease) -> None:
        """One slot's work from an offer to its end. Nothing that goes wrong here ends other runs."""
        if self._draining.is_set():
            await self._offers.give_back(lease.reply, 0)
            return
        claim: Claim | None = None
        try:
            claim = await self._taker.take(lease)
            if claim is not None:
                await self._live(claim)
                await asyncio.to_thread(self._recovery.forget, claim.entry)
        except Exception as error:
            log.exception("attempt.crashed", run_id=lease.offer.run_id, attempt=lease.offer.attempt)
            if claim is not None:
                reason = claim.prepared.redact(f"the worker failed: {type(error).__name__}: {error}")
                await self._recovery.close(claim.entry, reason)
        finally:
            if claim is not None:
                self._room.release(claim.entry.name)

    async def _live(self, claim: Claim) -> None:
        attempt = Attempt(
            claim,
            self._settings,
            self._link,
            self._log,
            self._recorder,
            self._publisher,
            self._spools,
            self._blobs,
            self._uploads,
            Announced(self._announcements, claim.entry.name),
        )
        self._held[claim.entry.name] = attempt
        try:
            if self._draining.is_set():
                attempt.stop(handed_back(claim.run.spec))
            await attempt.live()
        finally:
            del self._held[claim.entry.name]

    def _drain(self) -> None:
        if not self._draining.is_set():
            log.info("worker.draining", held=len(self._held))
        self._draining.set()

    async def _leave(self) -> None:
        """Give everything back and say goodbye, if the log can be reached in time."""
        for attempt in self._held.values():
            attempt.stop(handed_back(attempt.claim.run.spec))
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._settings.drain_seconds)
            for task in late:
                # The journal still has it: the next start says that it was lost.
                log.warning("worker.left_unsaid", task=task.get_name())
            await put_down(*late, patience=LATE_SECONDS)
        if self._settings.worker_only_run:
            return
        try:
            async with asyncio.timeout(OFFLINE_SECONDS):
                await self._roster.offline("shut down")
        except TimeoutError:
            log.warning("worker.offline_unsaid")

    async def _unless_draining(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The outcome, or Draining as soon as the worker is asked to stop."""
        work = asyncio.ensure_future(coroutine)
        asked = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise Draining
        finally:
            await put_down(work, asked)
