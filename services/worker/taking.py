"""Taking an offer: the log is the lock."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from runspine.blobs import Blobs, BlobsUnavailable
from runspine.datasets import BadDataset
from runspine.log import Conflict
from runspine.log.subjects import attempts_subject, run_subject
from runspine.run import fold
from runspine.runners import Runner
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import AttemptStarted, Fact
from runspine.wire.v1.run_pb2 import Offer, Run, Waiting
from runspine.wire.v1.runner_pb2 import RunnerInfo
from services.worker.capacity import Room, Share
from services.worker.dataset_cache import DatasetCache
from services.worker.doubts import Doubts
from services.worker.journal import Entry, Journal
from services.worker.offers import Lease, Offers
from services.worker.preparation import Prepared, describe, prepare, run_directory
from services.worker.recorder import Recorder, now
from services.worker.reservation import Reservations
from services.worker.resume import InDoubt, Start, find_start
from services.worker.settings import WorkerSettings
from services.worker.uploads import Uploads
from services.worker.verdict import is_taken, is_waiting

log = structlog.get_logger()

# When an offer that cannot be judged, or does not fit, comes again.
AGAIN_SECONDS = 1.0
# The same for one that can never fit here: another worker may be next to see it.
NEVER_SECONDS = 10.0
STORE_SECONDS = 3.0
# How long a reason is told beyond the time at which its offer should have come again.
TOLD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt that is ours: its AttemptStarted is on the log."""

    run: Run
    attempt: int
    prepared: Prepared
    entry: Entry
    start: Start


class Later(Exception):
    """The offer cannot be taken up now; the message says what it waits for."""

    def __init__(self, reason: str, delay: float) -> None:
        super().__init__(reason)
        self.delay = delay


class Taker:
    def __init__(
        self,
        settings: WorkerSettings,
        recorder: Recorder,
        offers: Offers,
        journal: Journal,
        runners: Mapping[str, Runner],
        *,
        room: Room,
        blobs: Blobs,
        uploads: Uploads,
    ) -> None:
        self._settings = settings
        self._recorder = recorder
        self._offers = offers
        self._journal = journal
        self._runners = runners
        self._room = room
        self._blobs = blobs
        self._doubts = Doubts(blobs, settings.worker_id, settings.checkpoint_patience)
        self._datasets = DatasetCache(
            settings.worker_dir / "datasets", blobs, self._doubts, int(settings.dataset_cache_mib * (1 << 20))
        )
        self._reservations = Reservations(settings.reserve_after)
        self._uploads = uploads
        self._taking: set[str] = set()
        self._waiting: dict[str, tuple[str, float]] = {}

    async def take(self, lease: Lease) -> Claim | None:
        """The claim, or None when the offer was stale, does not fit, or another worker was faster.

        A claim has its part of the room until that is released under the name of its entry.
        """
        if lease.offer.run_id in self._taking:
            # The same offer twice: two slots of one worker would share a directory and a journal entry.
            await self._offers.give_back(lease.reply, AGAIN_SECONDS)
            return None
        self._taking.add(lease.offer.run_id)
        try:
            return await self._take(lease)
        except Later as later:
            await self._put_off(lease, later)
            return None
        finally:
            self._taking.remove(lease.offer.run_id)

    def waiting(self) -> list[Waiting]:
        """Offers that were given back, and why, as long as that is news."""
        at = time.monotonic()
        self._waiting = {run_id: told for run_id, told in self._waiting.items() if told[1] > at}
        return [Waiting(run_id=run_id, reason=reason) for run_id, (reason, _) in self._waiting.items()]

    async def _put_off(self, lease: Lease, later: Later) -> None:
        run_id = lease.offer.run_id
        if run_id not in self._waiting:
            log.info("offer.put_off", run_id=run_id, reason=str(later))
        self._waiting[run_id] = (str(later), time.monotonic() + later.delay + TOLD_SECONDS)
        await self._offers.give_back(lease.reply, later.delay)

    async def _take(self, lease: Lease) -> Claim | None:
        offer = lease.offer
        run = fold((await self._recorder.read(run_subject(offer.run_id)))[0])
        if run.attempt < offer.attempt:
            # The offer may be ahead of what a replica shows of the run.
            await self._offers.give_back(lease.reply, AGAIN_SECONDS)
            return None
        claim = await self._fit(run, lease) if is_waiting(run, offer.attempt) else None
        self._waiting.pop(offer.run_id, None)
        if claim is None:
            log.info("offer.dropped", run_id=offer.run_id, attempt=offer.attempt)
        await self._offers.acknowledge(lease, "taken" if claim else "dropped")
        return claim

    async def _fit(self, run: Run, lease: Lease) -> Claim | None:
        """Claim it if there is room, which is kept for it meanwhile. Raises Later."""
        if why := self._room.never(run.spec):
            raise Later(why, NEVER_SECONDS)
        now, priority = time.monotonic(), lease.offer.priority
        if why := self._room.lacks(run.spec):
            self._reservations.note(run.id, run.spec, priority, now)
            raise Later(why, AGAIN_SECONDS)
        if why := self._reservations.keeps_out(run.id, run.spec, priority, now):
            raise Later(why, AGAIN_SECONDS)
        name = _entry_name(run, lease.offer)
        share = self._room.take(name, run.spec)
        holding = asyncio.create_task(self._offers.hold(lease), name=f"offer-{run.id}")
        claim = None
        try:
            claim = await self._claim(run, lease.offer, share)
        finally:
            await put_down(holding)
            if claim is None:
                self._room.release(name)
        self._reservations.forget(run.id)
        return claim

    async def _claim(self, run: Run, offer: Offer, share: Share) -> Claim | None:
        run_dir = run_directory(self._settings.worker_dir, run.id, offer.attempt)
        entry = Entry(run.id, offer.attempt, str(run_dir))
        history, version = await self._recorder.read(attempts_subject(run.id))
        if is_taken(history, offer.attempt):
            return None
        start = await self._with_dataset(await self._start(run, offer), run, run_dir)
        prepared = await asyncio.to_thread(
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
        )
        await asyncio.to_thread(self._journal.add, entry)
        while not is_taken(history, offer.attempt):
            try:
                fact = self._started(offer.attempt, prepared, start)
                await self._recorder.append(attempts_subject(run.id), [fact], version)
            except Conflict:
                # Perhaps only a late word on an earlier attempt: look again.
                history, version = await self._recorder.read(attempts_subject(run.id))
            else:
                return Claim(run, offer.attempt, prepared, entry, start)
        await asyncio.to_thread(self._journal.remove, entry)
        return None

    async def _start(self, run: Run, offer: Offer) -> Start:
        """The checkpoint to begin with. Raises Later rather than begin anew while S3 is away."""
        runner = self._runners.get(run.spec.runner)
        info = describe(run.spec.runner, runner) if runner else RunnerInfo()
        if info.resumes and self._uploads.checkpoints_due(run.id):
            raise Later("its last checkpoint is still being uploaded", AGAIN_SECONDS)
        run_dir = run_directory(self._settings.worker_dir, run.id, offer.attempt)
        try:
            start = await find_start(
                self._recorder, self._blobs, self._doubts, run, offer.attempt, run_dir, info
            )
        except BlobsUnavailable as error:
            raise Later(f"its checkpoint cannot be fetched: {error}", STORE_SECONDS) from error
        except InDoubt as error:
            raise Later(str(error), AGAIN_SECONDS) from error
        for digest in start.damaged:
            self._uploads.distrust(digest)
        return start

    async def _with_dataset(self, start: Start, run: Run, run_dir: Path) -> Start:
        """The same start, with the run's dataset beside it. Raises Later while it cannot be had."""
        wanted = run.spec.dataset
        if not wanted.digest or start.obstacle:
            return start

        def tell(words: str) -> None:
            self._waiting[run.id] = (words, time.monotonic() + TOLD_SECONDS)

        try:
            found = await self._datasets.get(wanted, tell)
        except BadDataset as error:
            return replace(start, obstacle=str(error))
        except BlobsUnavailable as error:
            raise Later(f"its dataset cannot be fetched: {error}", STORE_SECONDS) from error
        except InDoubt as error:
            raise Later(str(error), AGAIN_SECONDS) from error
        return replace(start, dataset=found.path, notes=[*start.notes, *found.notes])

    def _started(self, attempt: int, prepared: Prepared, start: Start) -> Fact:
        said = AttemptStarted(
            attempt=attempt,
            worker_id=self._settings.worker_id,
            host=socket.gethostname(),
            command=prepared.redact.each(prepared.command),
            directory=str(prepared.run_dir),
            resumed_from=start.source,
        )
        return Fact(at=now(), attempt_started=said)


def _entry_name(run: Run, offer: Offer) -> str:
    return Entry(run.id, offer.attempt, "").name
