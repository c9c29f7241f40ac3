"""One attempt from its claim to its last fact."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable

import structlog

from runspine.blobs import Blobs
from runspine.log import EventLog
from runspine.log.link import Link
from runspine.log.publisher import Publisher
from runspine.log.subjects import RUNS, attempts_subject, run_subject
from runspine.run import fold
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import (
    HANDED_BACK,
    LIMIT,
    LOST,
    NOT_STARTED,
    AttemptExited,
    AttemptProgressed,
    Fact,
    Outcome,
    Progress,
)
from services.worker.announced import Announced
from services.worker.desk import Desk
from services.worker.limits import Guard
from services.worker.metrics import ATTEMPTS
from services.worker.output import Output
from services.worker.play.casting import cast
from services.worker.recorder import Recorder, now
from services.worker.sandbox import scratch, walled
from services.worker.settings import WorkerSettings
from services.worker.spools import Spools
from services.worker.taking import Claim
from services.worker.telemetry import Telemetry
from services.worker.trainer import STUCK_SECONDS, Exit, NotStarted, Trainer
from services.worker.uploads import Uploads
from services.worker.verdict import Stop, ended, grace_of, is_open, limit_reached, stop_for
from services.worker.view_socket import Place
from services.worker.viewing import Viewing

log = structlog.get_logger()

LEFT_SECONDS = 5.0
# How long the end of a run is held up by looking through its directory.
SEARCH_SECONDS = 120.0


class Attempt:
    """Runs the trainer, listens for reasons to stop it, and tells its end to the log."""

    def __init__(
        self,
        claim: Claim,
        settings: WorkerSettings,
        link: Link,
        event_log: EventLog,
        recorder: Recorder,
        publisher: Publisher,
        spools: Spools,
        blobs: Blobs,
        uploads: Uploads,
        announced: Announced,
    ) -> None:
        self.claim = claim
        self.run_id = claim.run.id
        self.number = claim.attempt
        self._settings = settings
        self._link = link
        self._log = event_log
        self._recorder = recorder
        self._run = claim.run
        prepared = claim.prepared
        self._telemetry = Telemetry(
            self.run_id, self.number, claim.run.spec, prepared.redact, publisher, spools
        )
        self._output = Output(prepared.run_dir, self._telemetry)
        self._blobs = blobs
        self._uploads = uploads
        self._desk = Desk(
            uploads,
            announced,
            self.run_id,
            self.number,
            prepared.run_dir,
            prepared.redact,
            self._remark,
        )
        self._telemetry.on_artifact(self._desk.announce)
        self._trainer: Trainer | None = None
        self._stop: Stop | None = None
        self._fenced = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def progress(self) -> Progress:
        return self._telemetry.progress

    async def live(self) -> None:
        """Returns when the end is on the log, or when another attempt has taken over."""
        position = await self._reread()
        await self._telemetry.start()
        watch = asyncio.create_task(self._watch(position), name=f"watch-{self.run_id}")
        life = asyncio.create_task(self._life(), name=f"life-{self.run_id}")
        fenced = asyncio.create_task(self._fenced.wait())
        try:
            # A failed watch is a failed attempt: a cancel must not go unheard.
            await asyncio.wait({life, fenced, watch}, return_when=asyncio.FIRST_COMPLETED)
            for task in (life, watch):
                if task.done():
                    task.result()
            if self._fenced.is_set():
                log.warning("attempt.fenced", run_id=self.run_id, attempt=self.number)
        finally:
            await self._end(life, watch, fenced)

    def stop(self, stop: Stop) -> None:
        """End the trainer for this reason; the first reason stands."""
        if stop.fenced:
            self._fenced.set()
        if self._stop is not None:
            return
        self._stop = stop
        log.info("attempt.stopping", run_id=self.run_id, attempt=self.number, reason=stop.reason)
        if self._trainer:
            self._halt(self._trainer, stop)

    def _halt(self, trainer: Trainer, stop: Stop) -> None:
        trainer.term(stop.grace)
        self._later(stop.grace + STUCK_SECONDS, trainer.kill_keeper)

    async def _end(self, *tasks: asyncio.Task[object]) -> None:
        """Leave nothing running, however `live` ended."""
        for timer in self._timers:
            timer.cancel()
        await put_down(*tasks)
        await self._desk.close()
        if self._fenced.is_set():
            await self._telemetry.drop()
        if self._trainer:
            self._trainer.kill()
            await self._trainer.wait()
            self._trainer.close()
        await self._telemetry.leave()

    async def _reread(self) -> int:
        """A cancel may have come between the offer and the claim."""
        facts, version = await self._recorder.read(run_subject(self.run_id))
        self._run = fold(facts)
        self._judge()
        return version.sequence

    async def _watch(self, position: int) -> None:
        """Follow what is decided on the run. A requeue always comes before a later attempt's start."""
        following = self._log.follow(RUNS, after=position, subject=run_subject(self.run_id))
        async with contextlib.aclosing(following):
            async for recorded in following:
                self._run = fold(recorded.commit.facts, self._run)
                self._judge()

    def _judge(self) -> None:
        if stop := stop_for(self._run, self.number):
            self.stop(stop)

    async def _life(self) -> None:
        self._desk.start()
        for note in self.claim.start.notes:
            await self._remark(note)
        exited = await self._train()
        exited.reason = self.claim.prepared.redact(exited.reason)
        if self._stop or exited.outcome in (NOT_STARTED, LIMIT):
            await self._remark(exited.reason)
        await self._telemetry.passed_on()
        await self._desk.search(self._search_seconds(exited.outcome))
        await self._desk.finish(self._upload_seconds(exited.outcome))
        exited.stderr_tail = self._output.tail
        exited.reason += self._telemetry.slowed_reason
        exited.counts.CopyFrom(self._telemetry.counts)
        exited.progress.CopyFrom(self.progress)
        await self._telemetry.finish()
        if await self._tell_end(exited):
            ATTEMPTS.labels(Outcome.Name(exited.outcome).lower()).inc()
            log.info("attempt.ended", run_id=self.run_id, attempt=self.number, reason=exited.reason)

    async def _train(self) -> AttemptExited:
        """Start the trainer and stay with it to its end."""
        prepared = self.claim.prepared
        if self._stop:
            return self._ended(self._stop)
        if prepared.obstacle:
            return self._ended(Stop(NOT_STARTED, prepared.obstacle))
        place = await asyncio.to_thread(Place, prepared.run_dir)
        casting = functools.partial(cast, self._blobs, prepared.run_dir)
        async with Viewing(self._link, self.run_id, self.number, place, lambda: self.progress, casting):
            try:
                trainer = await self._start_trainer(place)
            except NotStarted as error:
                return self._ended(Stop(NOT_STARTED, f"{prepared.command[0]} could not be started: {error}"))
            self._trainer = trainer
            return await self._stay(trainer)

    async def _start_trainer(self, place: Place) -> Trainer:
        prepared = self.claim.prepared
        command, environment = prepared.command, {**prepared.environment, "RUNSPINE_VIEW": str(place.path)}
        if self._settings.worker_sandbox:
            places = (prepared.directory, prepared.run_dir, self._settings.worker_dir)
            command = await asyncio.to_thread(walled, command, *places)
            environment |= await asyncio.to_thread(scratch, prepared.run_dir)
        return await Trainer.start(
            self.claim.entry.name,
            command,
            prepared.directory,
            environment,
            prepared.run_dir / "keeper.lock",
            self._run.spec.limits,
            walled=self._settings.worker_sandbox,
        )

    async def _stay(self, trainer: Trainer) -> AttemptExited:
        """Within its limits, with its progress told, to its end."""
        prepared = self.claim.prepared
        if self._stop:
            self._halt(trainer, self._stop)
        if limit := self._run.spec.limits.wall_seconds:
            reached = limit_reached(limit, grace_of(self._run.spec))
            self._later(limit, lambda: self.stop(reached))
        progress = asyncio.create_task(self._report(), name=f"progress-{self.run_id}")
        guard = Guard(
            self._run.spec.limits, prepared.run_dir, trainer.process.pid, trainer.cgroup, trainer.enforced
        )
        guarding = asyncio.create_task(guard.watch(self.stop), name=f"limits-{self.run_id}")
        try:
            if said := guard.describe():
                await self._remark(said)
            return await self._accompany(trainer, guard)
        finally:
            await put_down(progress, guarding)

    async def _accompany(self, trainer: Trainer, guard: Guard) -> AttemptExited:
        output = asyncio.create_task(self._output.follow(trainer.stdout, trainer.stderr, trainer.telemetry))
        try:
            how = await trainer.wait()
            stop = self._stop
            if how.left:
                # Something unkillable holds the pipes open: read what is there, then leave it.
                log.error("trainer.unkillable", run_id=self.run_id, processes=how.left)
                await asyncio.wait({output}, timeout=LEFT_SECONDS)
            else:
                await output
        finally:
            await put_down(output)
        if how.unknown and stop is None:
            stop = Stop(LOST, "the trainer's keeper was killed, and the trainer with it")
        if stop is None and (how.exit_code or how.signal):
            stop = await asyncio.to_thread(guard.verdict, how.signal, trainer.hits)
        return self._ended(stop, how)

    def _ended(self, stop: Stop | None, how: Exit | None = None) -> AttemptExited:
        how = how or Exit()
        return ended(
            self.number, self._settings.worker_id, stop, how.exit_code, how.signal, self._output.last_word
        )

    async def _remark(self, text: str) -> None:
        """A line of our own in the run's log."""
        self._telemetry.remark(self.claim.prepared.redact(text))

    def _upload_seconds(self, outcome: Outcome) -> float:
        """How long the end waits for S3: a draining worker has little time, and none after its goodbye."""
        wait = self._settings.upload_wait
        return min(wait, self._settings.drain_seconds / 2) if outcome == HANDED_BACK else wait

    async def _report(self) -> None:
        """A fact about progress now and then; beats carry it every second."""
        told = Progress()
        while True:
            await asyncio.sleep(self._settings.progress_seconds)
            progress = self.progress
            if progress.step != told.step or progress.counts != told.counts:
                said = AttemptProgressed(attempt=self.number, progress=progress)
                await self._settle(Fact(at=now(), attempt_progressed=said))
                told = progress

    def _search_seconds(self, outcome: Outcome) -> float:
        """The same for files that nobody has announced."""
        return self._settings.drain_seconds / 4 if outcome == HANDED_BACK else SEARCH_SECONDS

    async def _tell_end(self, exited: AttemptExited) -> bool:
        fact = Fact(at=now(), attempt_exited=exited)

        def unless_told(history: list[Fact]) -> list[Fact]:
            if not is_open(history, self.number, self._settings.worker_id):
                return []
            # Counted against the very history that it follows: whoever reads on counts down to zero.
            pending = self._uploads.pending(self.run_id, self.number, history)
            fact.attempt_exited.artifacts_pending = pending
            return [fact]

        return bool(await self._recorder.settle(attempts_subject(self.run_id), unless_told))

    async def _settle(self, fact: Fact) -> bool:
        """Append while this worker's word on the attempt counts; whether it did."""
        told = await self._recorder.settle(
            attempts_subject(self.run_id),
            lambda history: [fact] if is_open(history, self.number, self._settings.worker_id) else [],
        )
        return bool(told)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call))
