"""The worker process: fills its slots with attempts and drains on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import structlog

from runspine.eventlog import EventLog
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.publisher import Publisher
from runspine.runners import Runner
from runspine.services.worker.artifacts.pending import PendingArtifacts
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.attach.responder import ProcessResponder
from runspine.services.worker.attempt.attempt import Attempt
from runspine.services.worker.attempt.recovery import Recovery
from runspine.services.worker.claim.cache_reports import CacheReports
from runspine.services.worker.claim.capacity import CapacityPool, measure
from runspine.services.worker.claim.claim import Claim, Claimer
from runspine.services.worker.claim.launch_check import LaunchChecker
from runspine.services.worker.claim.offers import OfferLease, OfferQueue
from runspine.services.worker.claim.preflight import PreflightResponder
from runspine.services.worker.claim.single_run import SingleRun
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.journal import Journal
from runspine.services.worker.facts.outcome import hand_back
from runspine.services.worker.heartbeat import Heartbeat, HeldAttempt
from runspine.services.worker.machine.removal_plan import KeepRules
from runspine.services.worker.machine.run_folders import RunFolders
from runspine.services.worker.machine.slurm_job import find_job
from runspine.services.worker.machine.status import MachineMonitor
from runspine.services.worker.machine.sweep import FolderSweep
from runspine.services.worker.metrics import BACKLOG, BUSY, SLOTS
from runspine.services.worker.process.cgroup import claim_subtree
from runspine.services.worker.process.gpu import find_gpus
from runspine.services.worker.process.sandbox import Sandbox
from runspine.services.worker.process.trainer_process import adopt_orphans
from runspine.services.worker.settings import WorkerSettings
from runspine.services.worker.telemetry.precedence import Precedence
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.services.worker.telemetry.unshipped import UnshippedSpools
from runspine.storage.file_blobs import FileBlobs
from runspine.storage.ranged_blobs import RangedS3Blobs
from runspine.tasks import cancel_and_wait

log = structlog.get_logger()

OFFLINE_SECONDS = 3.0
# How long a cancelled attempt may take to end its trainer before it is cancelled again.
LATE_SECONDS = 5.0
T = TypeVar("T")


class DrainingError(Exception):
    """The worker was asked to stop."""


class Worker:
    """Wires the parts of the worker together and runs them until it is stopped."""

    def __init__(
        self,
        settings: WorkerSettings,
        link: NatsConnection,
        event_log: EventLog,
        publisher: Publisher,
        blobs: FileBlobs,
        runners: Mapping[str, Runner],
        sandbox: Sandbox,
    ) -> None:
        self._settings = settings
        self._sandbox = sandbox
        self._link = link
        self._log = event_log
        self._publisher = publisher
        self._blobs = blobs
        self._runners = runners
        self._fact_writer = FactWriter(event_log)
        self._journal = Journal(settings.worker_dir)
        self._spools = SpoolDirectory(settings.worker_dir, int(settings.spool_mib * (1 << 20)))
        precedence = Precedence(self._spools, self._fact_writer, settings.worker_id)
        self._uploads = Uploads(settings.worker_dir / "uploads", blobs, self._fact_writer, precedence)
        self._announcements = settings.worker_dir / "announced"
        self._recovery = self._make_recovery(precedence)
        gpus = find_gpus(settings.worker_gpus, os.environ)
        self._capacity = CapacityPool(measure(gpus), gpus)
        self._offers = self._make_offers()
        self._claimer = self._make_claimer()
        self._heartbeat = Heartbeat(settings, link, self._fact_writer, sandbox)
        self._folders = RunFolders(settings.worker_dir)
        self.machine = MachineMonitor(
            settings.worker_dir, self._folders, [gpu.id for gpu in gpus], settings.machine_seconds
        )
        self._preflight = self._make_preflight()
        self._held: dict[str, Attempt] = {}
        self._processes = ProcessResponder(link, settings, self._held)
        self._cache_reports = CacheReports(
            link, settings.worker_id, self._claimer.datasets, lambda: {a.dataset for a in self._held.values()}
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._job = find_job(os.environ, settings.drain_seconds) if settings.worker_engine else None
        self._slots = asyncio.Semaphore(settings.worker_slots)
        self._draining = asyncio.Event()
        SLOTS.set(settings.worker_slots)
        BUSY.set_function(lambda: len(self._held))
        BACKLOG.set_function(lambda: publisher.waiting)

    def _make_offers(self) -> OfferQueue:
        run_id = self._settings.worker_only_run
        if run_id:
            return SingleRun(self._link, run_id, self._fact_writer, self._uploads, self._drain)
        return OfferQueue(self._link, self._settings.pools)

    def _make_recovery(self, precedence: Precedence) -> Recovery:
        return Recovery(
            self._journal,
            self._fact_writer,
            UnshippedSpools(self._spools, self._publisher, precedence),
            self._uploads,
            self._announcements,
            self._settings.worker_id,
            os.environ,
        )

    def _make_claimer(self) -> Claimer:
        return Claimer(
            self._settings,
            self._fact_writer,
            self._offers,
            self._journal,
            self._runners,
            capacity=self._capacity,
            blobs=self._blobs,
            uploads=self._uploads,
            sandbox=self._sandbox,
        )

    def _make_sweep(self) -> FolderSweep:
        return FolderSweep(
            self._folders,
            self._fact_writer,
            self._settings.worker_id,
            KeepRules(self._settings.keep_run_hours, self._settings.keep_runs_mib),
            self._runs_in_use,
            self._settings.sweep_seconds,
        )

    def _runs_in_use(self) -> set[str]:
        """Runs of which something on this disk is held, to be shipped or to be uploaded. Blocks."""
        announced = self._announcements.iterdir() if self._announcements.is_dir() else ()
        names = [*self._spools.names(), *(path.name for path in announced)]
        known = {name.partition(".")[0] for name in names}
        return known | self._journal.run_ids() | self._uploads.intents.run_ids()

    def _make_preflight(self) -> PreflightResponder:
        settings = self._settings
        checker = LaunchChecker(
            settings.worker_id,
            settings.worker_dir,
            self._runners,
            settings.runner_python,
            os.environ,
            RangedS3Blobs(settings),
        )
        return PreflightResponder(self._link, checker)

    async def serve(self) -> None:
        """Run until cancelled, then drain; further cancellations have no effect."""
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
        if self._job is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._warned)
        uploads = asyncio.create_task(self._uploads.run(), name="uploads")
        # Uploads never end by themselves: if they fail, the worker drains and fails too.
        uploads.add_done_callback(lambda _: self._drain())
        beats = asyncio.create_task(
            self._heartbeat.beat(
                self._reported_attempts,
                self._claimer.waiting,
                self._cache_reports.current,
                self.machine.take,
            ),
            name="beats",
        )
        upkeep = self._start_upkeep()
        try:
            await self._unless_draining(self._recovery.recover())
            async with self._preflight.serving(), self._processes.serving():
                await self._announce()
                while True:
                    await self._fill_slot()
        except DrainingError:
            await self._leave()
        finally:
            await self._recovery.leave()
            await self._heartbeat.leave()
            await cancel_and_wait(uploads, beats, *upkeep)
        if not uploads.cancelled():
            uploads.result()

    def _start_upkeep(self) -> list[asyncio.Task[None]]:
        """Measure the machine, report caches, sweep directories of runs. A failure of these ends no run."""
        works = {
            "machine": self.machine.run(),
            "caches": self._cache_reports.run(),
            "provenance": self._claimer.warm(),
        }
        if not self._settings.worker_only_run:
            works["sweep"] = self._make_sweep().run()
        tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
        for task in tasks:
            task.add_done_callback(_log_failure)
        return tasks

    async def _announce(self) -> None:
        # A worker of one run takes no other offers, so it is not announced as online.
        if not self._settings.worker_only_run:
            await self._unless_draining(self._heartbeat.online(self._runners, self._capacity.capacity))
        log.info("worker.online", worker_id=self._settings.worker_id, pools=self._settings.pools)

    def _reported_attempts(self) -> list[HeldAttempt]:
        """Attempts under way, and lost ones that recovery is closing."""
        return [*self._held.values(), *self._recovery.closing]

    async def _fill_slot(self) -> None:
        """Wait for a free slot, then for an offer, and start a task for it."""
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

    async def _hold(self, lease: OfferLease) -> None:
        """Claim an offer and run its attempt to its end. A failure here does not affect other runs."""
        if self._draining.is_set():
            await self._offers.give_back(lease.reply, 0)
            return
        claim: Claim | None = None
        try:
            claim = await self._claimer.claim(lease)
            if claim is not None:
                await self._run_attempt(claim)
                await asyncio.to_thread(self._recovery.forget, claim.entry)
        except Exception as error:
            log.exception("attempt.crashed", run_id=lease.offer.run_id, attempt=lease.offer.attempt)
            if claim is not None:
                reason = claim.prepared.redact(f"the worker failed: {type(error).__name__}: {error}")
                await self._recovery.close(claim.entry, reason)
        finally:
            if claim is not None:
                self._claimer.release(claim.entry.name)

    async def _run_attempt(self, claim: Claim) -> None:
        attempt = Attempt(
            claim,
            self._settings,
            self._link,
            self._log,
            self._fact_writer,
            self._publisher,
            self._spools,
            self._blobs,
            self._uploads,
            PendingArtifacts(self._announcements, claim.entry.name),
            self._sandbox,
        )
        self._held[claim.entry.name] = attempt
        try:
            if self._draining.is_set():
                self._hand_back(attempt)
            await attempt.run()
        finally:
            del self._held[claim.entry.name]

    def _warned(self) -> None:
        """The engine will end this worker soon, and gives it time for checkpoints."""
        if self._job is not None:
            self._job.warned = True
        self._drain()

    def _hand_back(self, attempt: Attempt) -> None:
        spec = attempt.claim.run.spec
        if self._job is None:
            attempt.stop(hand_back(spec))
        else:
            attempt.stop(hand_back(spec, self._job.grace_seconds, self._job.stop()))

    def _drain(self) -> None:
        if not self._draining.is_set():
            log.info("worker.draining", held=len(self._held))
        self._draining.set()

    async def _leave(self) -> None:
        """Hand back all attempts and record WorkerOffline, if the log can be reached in time."""
        for attempt in self._held.values():
            self._hand_back(attempt)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._settings.drain_seconds)
            for task in late:
                # The journal still has it: the next start records it as LOST.
                log.warning("worker.left_unsaid", task=task.get_name())
            await cancel_and_wait(*late, patience=LATE_SECONDS)
        if self._settings.worker_only_run:
            return
        try:
            async with asyncio.timeout(OFFLINE_SECONDS):
                await self._heartbeat.offline("shut down")
        except TimeoutError:
            log.warning("worker.offline_unsaid")

    async def _unless_draining(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine. Raises DrainingError as soon as the worker is asked to stop."""
        work = asyncio.ensure_future(coroutine)
        asked = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise DrainingError
        finally:
            await cancel_and_wait(work, asked)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("upkeep.failed", task=task.get_name(), exc_info=error)
