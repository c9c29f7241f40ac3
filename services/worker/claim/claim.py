"""Claims an offer by appending AttemptStarted: the log is the lock."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from runspine.clock import now_micros
from runspine.code.tree import CodeTreeError
from runspine.datasets import DatasetError
from runspine.domain.run import fold
from runspine.eventlog import CorruptError
from runspine.eventlog.subjects import attempts_subject, run_subject
from runspine.runners import Runner
from runspine.services.worker.artifacts.resume import AttemptStart, CheckpointUnconfirmedError, find_start
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.claim.capacity import CapacityPool, CapacityShare
from runspine.services.worker.claim.code_cache import CodeCache
from runspine.services.worker.claim.dataset_cache import DatasetCache
from runspine.services.worker.claim.offers import OfferLease, OfferQueue
from runspine.services.worker.claim.preparation import Prepared, describe, prepare, run_directory
from runspine.services.worker.claim.provenance import ProvenanceReader
from runspine.services.worker.claim.reservation import Reservations
from runspine.services.worker.claim.run_packages import RunPackages, packages_obstacle
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.journal import Journal, JournalEntry
from runspine.services.worker.facts.outcome import is_taken, is_waiting
from runspine.services.worker.process.sandbox import Sandbox
from runspine.services.worker.settings import WorkerSettings
from runspine.services.worker.virtualenvs.build import NotBuiltError
from runspine.services.worker.virtualenvs.cache import Virtualenv
from runspine.storage.blobs import Blobs, BlobsUnavailableError
from runspine.storage.missing import MissingObjects, write_probe
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import AttemptStarted, Fact, Provenance
from runspine.wire.v1.run_pb2 import Offer, Run, Waiting
from runspine.wire.v1.runner_pb2 import RunnerInfo

log = structlog.get_logger()

# Delay after which an offer that does not fit now is delivered again.
RETRY_SECONDS = 1.0
# The same for one that can never fit here: another worker may receive it first.
UNFIT_RETRY_SECONDS = 10.0
STORE_RETRY_SECONDS = 3.0
# An object that was not checked for so long is observed as missing from the start again.
MISSING_STALE_SECONDS = 30.0
# How long a reason is reported beyond the time at which its offer should have been delivered again.
REASON_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt of this worker: its AttemptStarted is on the log."""

    run: Run
    attempt: int
    prepared: Prepared
    entry: JournalEntry
    start: AttemptStart
    virtualenv: Virtualenv | None = None


class ClaimPostponedError(Exception):
    """The offer cannot be claimed now; the message states what it waits for."""

    def __init__(self, reason: str, delay: float) -> None:
        super().__init__(reason)
        self.delay = delay


class Claimer:
    """Checks offers against run, capacity and reservations, and claims those that fit."""

    def __init__(
        self,
        settings: WorkerSettings,
        fact_writer: FactWriter,
        offers: OfferQueue,
        journal: Journal,
        runners: Mapping[str, Runner],
        *,
        capacity: CapacityPool,
        blobs: Blobs,
        uploads: Uploads,
        sandbox: Sandbox,
    ) -> None:
        self._settings = settings
        self._sandbox = sandbox
        self._fact_writer = fact_writer
        self._offers = offers
        self._journal = journal
        self._runners = runners
        self._capacity = capacity
        self._blobs = blobs
        self._missing = MissingObjects(
            partial(write_probe, blobs, f"probes/{settings.worker_id}"),
            settings.checkpoint_patience,
            stale_seconds=MISSING_STALE_SECONDS,
        )
        self.datasets = DatasetCache(
            settings.worker_dir / "datasets",
            blobs,
            self._missing,
            int(settings.dataset_cache_mib * 2**20),
        )
        self._code = CodeCache(
            settings.worker_dir / "code", blobs, self._missing, int(settings.code_cache_mib * 2**20)
        )
        self._packages = RunPackages(settings, self._code, sandbox, gpus=bool(capacity.capacity.gpus))
        self._provenance = ProvenanceReader(blobs, capacity.capacity, settings.worker_dir)
        self._reservations = Reservations(settings.reserve_after)
        self._uploads = uploads
        self._claiming: set[str] = set()
        self._waiting: dict[str, tuple[str, float]] = {}

    async def claim(self, lease: OfferLease) -> Claim | None:
        """The claim, or None when the offer was stale, does not fit, or another worker claimed it first.

        A claim holds its share of the capacity until it is released under the name of its entry.
        """
        if lease.offer.run_id in self._claiming:
            # The same offer twice: two slots of one worker must not share a directory and a journal entry.
            await self._offers.give_back(lease.reply, RETRY_SECONDS)
            return None
        self._claiming.add(lease.offer.run_id)
        try:
            return await self._consider(lease)
        except ClaimPostponedError as postponed:
            await self._postpone(lease, postponed)
            return None
        except CorruptError as error:
            await self._postpone(lease, ClaimPostponedError(str(error), UNFIT_RETRY_SECONDS))
            return None
        finally:
            self._claiming.remove(lease.offer.run_id)

    def release(self, name: str) -> None:
        """Give back what the entry of this name holds of the machine."""
        self._capacity.release(name)
        self._packages.release(name)

    async def warm(self) -> None:
        """Prepare what the first attempt would wait for."""
        await self._provenance.warm([sys.executable, *self._settings.runner_python.values()])

    def waiting(self) -> list[Waiting]:
        """Offers that were given back recently, with the reasons."""
        at = time.monotonic()
        self._waiting = {run_id: entry for run_id, entry in self._waiting.items() if entry[1] > at}
        return [Waiting(run_id=run_id, reason=reason) for run_id, (reason, _) in self._waiting.items()]

    async def _postpone(self, lease: OfferLease, postponed: ClaimPostponedError) -> None:
        run_id = lease.offer.run_id
        if run_id not in self._waiting:
            log.info("offer.put_off", run_id=run_id, reason=str(postponed))
        self._waiting[run_id] = (str(postponed), time.monotonic() + postponed.delay + REASON_SECONDS)
        await self._offers.give_back(lease.reply, postponed.delay)

    async def _consider(self, lease: OfferLease) -> Claim | None:
        offer = lease.offer
        run = fold(await self._fact_writer.read(run_subject(offer.run_id)))
        if run.attempt < offer.attempt:
            # A replica may lag behind the offer.
            await self._offers.give_back(lease.reply, RETRY_SECONDS)
            return None
        claim = await self._fit(run, lease) if is_waiting(run, offer.attempt) else None
        self._waiting.pop(offer.run_id, None)
        if claim is None:
            log.info("offer.dropped", run_id=offer.run_id, attempt=offer.attempt)
        await self._offers.acknowledge(lease, "taken" if claim else "dropped")
        return claim

    async def _fit(self, run: Run, lease: OfferLease) -> Claim | None:
        """Allocate capacity and claim the offer. Raises ClaimPostponedError when it does not fit."""
        if not self._sandbox and (run.spec.isolation.required or run.spec.isolation.network == "none"):
            why = f"it requires a sandbox, which this worker does not have: {self._sandbox.missing}"
            raise ClaimPostponedError(why, UNFIT_RETRY_SECONDS)
        if why := self._capacity.never(run.spec):
            raise ClaimPostponedError(why, UNFIT_RETRY_SECONDS)
        now, priority = time.monotonic(), lease.offer.priority
        if why := self._capacity.lacks(run.spec):
            self._reservations.note(run.id, run.spec, priority, now)
            raise ClaimPostponedError(why, RETRY_SECONDS)
        if why := self._reservations.keeps_out(run.id, run.spec, priority, now):
            raise ClaimPostponedError(why, RETRY_SECONDS)
        name = _entry_name(run, lease.offer)
        share = self._capacity.take(name, run.spec)
        holding = asyncio.create_task(self._offers.hold(lease), name=f"offer-{run.id}")
        claim = None
        try:
            claim = await self._claim(run, lease.offer, share)
        finally:
            await cancel_and_wait(holding)
            if claim is None:
                self.release(name)
        self._reservations.forget(run.id)
        return claim

    async def _claim(self, run: Run, offer: Offer, share: CapacityShare) -> Claim | None:
        run_dir = run_directory(self._settings.worker_dir, run.id, offer.attempt)
        entry = JournalEntry(run.id, offer.attempt, str(run_dir))
        if is_taken(await self._fact_writer.read(attempts_subject(run.id)), offer.attempt):
            return None
        start = await self._with_dataset(await self._start(run, offer), run, run_dir)
        start = await self._with_code(start, run, run_dir)
        start, virtualenv = await self._with_packages(start, run, entry.name)
        prepared = await self._prepare(run, offer, run_dir, share, start, virtualenv)
        provenance = await self._provenance.describe(
            run.spec, prepared.command, prepared.environment, share, virtualenv
        )
        await asyncio.to_thread(self._journal.add, entry)

        def unless_taken(history: list[Fact]) -> list[Fact]:
            taken = is_taken(history, offer.attempt)
            return [] if taken else [self._started(offer.attempt, prepared, start, provenance)]

        if await self._fact_writer.commit(attempts_subject(run.id), unless_taken):
            return Claim(run, offer.attempt, prepared, entry, start, virtualenv)
        await asyncio.to_thread(self._journal.remove, entry)
        return None

    async def _prepare(
        self,
        run: Run,
        offer: Offer,
        run_dir: Path,
        share: CapacityShare,
        start: AttemptStart,
        virtualenv: Virtualenv | None,
    ) -> Prepared:
        return await asyncio.to_thread(
            prepare,
            run.spec,
            run.id,
            offer.attempt,
            run_dir,
            self._runners,
            os.environ,
            pythons=self._settings.runner_python,
            gpus=share.gpus,
            start=start,
            virtualenv=virtualenv,
            wandb_proxy=self._settings.wandb_proxy,
        )

    async def _start(self, run: Run, offer: Offer) -> AttemptStart:
        """The checkpoint to start from.

        Raises ClaimPostponedError while S3 is unavailable: the run does not start from step 0 because of it.
        """
        runner = self._runners.get(run.spec.runner)
        info = describe(run.spec.runner, runner) if runner else RunnerInfo()
        if info.resumes and self._uploads.checkpoints_due(run.id):
            raise ClaimPostponedError("its last checkpoint is still being uploaded", RETRY_SECONDS)
        run_dir = run_directory(self._settings.worker_dir, run.id, offer.attempt)
        try:
            start = await find_start(
                self._fact_writer, self._blobs, self._missing, run, offer.attempt, run_dir, info
            )
        except BlobsUnavailableError as error:
            raise ClaimPostponedError(
                f"its checkpoint cannot be fetched: {error}", STORE_RETRY_SECONDS
            ) from error
        except CheckpointUnconfirmedError as error:
            raise ClaimPostponedError(str(error), RETRY_SECONDS) from error
        for digest in start.damaged:
            self._uploads.distrust(digest)
        return start

    async def _with_dataset(self, start: AttemptStart, run: Run, run_dir: Path) -> AttemptStart:
        """The same start, with the run's dataset on this host.

        Raises ClaimPostponedError while it cannot be fetched.
        """
        wanted = run.spec.dataset
        if not wanted.digest or start.obstacle:
            return start

        def report(text: str) -> None:
            self._waiting[run.id] = (text, time.monotonic() + REASON_SECONDS)

        try:
            found = await self.datasets.get(wanted, report)
        except DatasetError as error:
            return replace(start, obstacle=str(error))
        except BlobsUnavailableError as error:
            raise ClaimPostponedError(
                f"its dataset cannot be fetched: {error}", STORE_RETRY_SECONDS
            ) from error
        except CheckpointUnconfirmedError as error:
            raise ClaimPostponedError(str(error), RETRY_SECONDS) from error
        return replace(start, dataset=found.path, notes=[*start.notes, *found.notes])

    async def _with_code(self, start: AttemptStart, run: Run, run_dir: Path) -> AttemptStart:
        """The same start, with a working copy of the run's code.

        Raises ClaimPostponedError while it cannot be fetched.
        """
        if not run.spec.code.tree or start.obstacle:
            return start

        def report(text: str) -> None:
            self._waiting[run.id] = (text, time.monotonic() + REASON_SECONDS)

        try:
            work, notes = await self._code.materialise(run.spec.code, run_dir, report)
        except CodeTreeError as error:
            return replace(start, obstacle=f"code: {error}")
        except BlobsUnavailableError as error:
            raise ClaimPostponedError(f"its code cannot be fetched: {error}", STORE_RETRY_SECONDS) from error
        except CheckpointUnconfirmedError as error:
            raise ClaimPostponedError(str(error), RETRY_SECONDS) from error
        return replace(start, work=work, notes=[*start.notes, *notes])

    async def _with_packages(
        self, start: AttemptStart, run: Run, name: str
    ) -> tuple[AttemptStart, Virtualenv | None]:
        """The same start, with the virtualenv of the run's packages.

        Raises ClaimPostponedError while their files cannot be fetched.
        """
        if not run.spec.packages.tree or start.obstacle:
            return start, None

        def report(text: str) -> None:
            self._waiting[run.id] = (text, time.monotonic() + REASON_SECONDS)

        try:
            virtualenv = await self._packages.get(name, run.spec, report)
        except (NotBuiltError, CodeTreeError) as error:
            return replace(start, obstacle=packages_obstacle(run.spec, error)), None
        except BlobsUnavailableError as error:
            raise ClaimPostponedError(
                f"the files of its packages cannot be fetched: {error}", STORE_RETRY_SECONDS
            ) from error
        except CheckpointUnconfirmedError as error:
            raise ClaimPostponedError(str(error), RETRY_SECONDS) from error
        return replace(start, notes=[*start.notes, *virtualenv.notes]), virtualenv

    def _started(self, attempt: int, prepared: Prepared, start: AttemptStart, provenance: Provenance) -> Fact:
        started = AttemptStarted(
            attempt=attempt,
            worker_id=self._settings.worker_id,
            host=socket.gethostname(),
            command=prepared.redact.each(prepared.command),
            directory=str(prepared.run_dir),
            resumed_from=start.source,
            versions=prepared.versions,
            provenance=provenance,
        )
        return Fact(at=now_micros(), attempt_started=started)


def _entry_name(run: Run, offer: Offer) -> str:
    return JournalEntry(run.id, offer.attempt, "").name
