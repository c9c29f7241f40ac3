"""Runs one attempt, from its claim to AttemptExited."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable

import structlog

from runspine.clock import now_micros
from runspine.domain.dataset_tag import dataset_tag
from runspine.domain.run import fold
from runspine.eventlog import EventLog
from runspine.eventlog.admission import follow_accepted
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.subjects import RUNS, attempts_subject, run_subject
from runspine.services.worker.artifacts.collector import ArtifactCollector
from runspine.services.worker.artifacts.pending import PendingArtifacts
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.attempt.reports import TrainerReports
from runspine.services.worker.attempt.trainer_start import start_trainer
from runspine.services.worker.attempt.waits import discovery_seconds, upload_seconds
from runspine.services.worker.claim.claim import Claim
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.outcome import (
    Stop,
    episodes_reached,
    exited_fact,
    grace_of,
    is_open,
    limit_reached,
    stop_for,
)
from runspine.services.worker.live.actors import fetch_actor
from runspine.services.worker.live.publisher import FramePublisher
from runspine.services.worker.live.view_socket import ViewSocket
from runspine.services.worker.metrics import ATTEMPTS
from runspine.services.worker.process.event_tail import EventTail
from runspine.services.worker.process.limits import LimitGuard, bounded
from runspine.services.worker.process.output import Output
from runspine.services.worker.process.sandbox import Sandbox
from runspine.services.worker.process.stall import StallGuard
from runspine.services.worker.process.telemetry_socket import TelemetrySocket
from runspine.services.worker.process.trainer_process import (
    STUCK_SECONDS,
    NotStartedError,
    TrainerExit,
    TrainerProcess,
)
from runspine.services.worker.process.usage import report_usage, sampler_of
from runspine.services.worker.settings import WorkerSettings
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.storage.blobs import Blobs
from runspine.tasks import alongside, cancel_and_wait
from runspine.wire.v1.facts_pb2 import (
    HANDED_BACK,
    LIMIT,
    LOST,
    NOT_STARTED,
    STOPPED,
    AttemptExited,
    AttemptProgressed,
    Fact,
    Outcome,
    Progress,
)

log = structlog.get_logger()

UNKILLABLE_SECONDS = 5.0
# How long a cancelled run's end waits for announced files to be examined; the rest follows it.
CANCEL_COLLECT_SECONDS = 1.0


class Attempt:
    """Runs the trainer, stops it when the run or a limit requires it, and records how it ended."""

    def __init__(
        self,
        claim: Claim,
        settings: WorkerSettings,
        link: NatsConnection,
        event_log: EventLog,
        fact_writer: FactWriter,
        publisher: Publisher,
        spools: SpoolDirectory,
        blobs: Blobs,
        uploads: Uploads,
        announced: PendingArtifacts,
        sandbox: Sandbox,
    ) -> None:
        self.claim = claim
        self.run_id = claim.run.id
        self.number = claim.attempt
        # SHA-256 of what it learns from; empty without a dataset.
        self.dataset = claim.run.spec.dataset.digest
        self._settings = settings
        self._sandbox, self.sandboxed = sandbox, bool(sandbox)
        self.limits = bounded(claim.run.spec.limits, settings.most_limits)
        self._link = link
        self._log = event_log
        self._fact_writer = fact_writer
        self._run = claim.run
        prepared = claim.prepared
        self._telemetry = TelemetryPipeline(
            self.run_id,
            self.number,
            claim.run.spec,
            prepared.redact,
            publisher,
            spools,
            episodes_before=claim.start.episodes_before,
            resumed_at=claim.start.resumed_at,
        )
        self._telemetry.on_max_episodes = lambda: self.stop(episodes_reached(claim.run.spec))
        self._output = Output(prepared.run_dir, self._telemetry)
        self._event_tail = EventTail(prepared.run_dir, self._telemetry)
        self._blobs = blobs
        self._uploads = uploads
        self._collector = ArtifactCollector(
            uploads,
            announced,
            self.run_id,
            self.number,
            prepared.run_dir,
            prepared.redact,
            self._log_line,
            dataset_tag(claim.run.spec),
            claim.start.work,
        )
        self._telemetry.on_artifact(self._collector.announce)
        self._reports = TrainerReports(self.number, prepared.run_dir, self._telemetry, self._append)
        self._trainer: TrainerProcess | None = None
        self._stop: Stop | None = None
        self._stall: StallGuard | None = None
        self._fenced = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def trainer(self) -> TrainerProcess | None:
        """The trainer, once it was started."""
        return self._trainer

    @property
    def progress(self) -> Progress:
        """How far the trainer is, for heartbeats."""
        progress = self._telemetry.progress
        progress.stalled_since = self._stall.stalled_since if self._stall else 0
        return progress

    async def run(self) -> None:
        """Return when AttemptExited is on the log, or when a later attempt has superseded this one."""
        position = await self._reread()
        await self._telemetry.start()
        watch = asyncio.create_task(self._watch(position), name=f"watch-{self.run_id}")
        execution = asyncio.create_task(self._execute(), name=f"attempt-{self.run_id}")
        fenced = asyncio.create_task(self._fenced.wait())
        try:
            # A failed watch fails the attempt: a cancel must not be missed.
            await asyncio.wait({execution, fenced, watch}, return_when=asyncio.FIRST_COMPLETED)
            for task in (execution, watch):
                if task.done():
                    task.result()
            if self._fenced.is_set():
                log.warning("attempt.fenced", run_id=self.run_id, attempt=self.number)
        finally:
            await self._clean_up(execution, watch, fenced)

    def stop(self, stop: Stop) -> None:
        """Stop the trainer for this reason; only the first reason counts."""
        if stop.fenced:
            self._fenced.set()
        if self._stop is not None:
            return
        self._stop = stop
        log.info("attempt.stopping", run_id=self.run_id, attempt=self.number, reason=stop.reason)
        if self._trainer:
            self._halt(self._trainer, stop)

    def _halt(self, trainer: TrainerProcess, stop: Stop) -> None:
        trainer.term(stop.grace)
        self._call_later(stop.grace + STUCK_SECONDS, trainer.kill_reaper)

    async def _clean_up(self, *tasks: asyncio.Task[object]) -> None:
        """Stop everything that still runs, however `run` ended."""
        for timer in self._timers:
            timer.cancel()
        await cancel_and_wait(*tasks)
        await self._collector.close()
        if self._fenced.is_set():
            await self._telemetry.drop()
        if self._trainer:
            self._trainer.kill()
            await self._trainer.wait()
            self._trainer.close()
        await self._telemetry.leave()

    async def _reread(self) -> int:
        """Read the run again: a cancel may have been stored between the offer and the claim."""
        facts, version = await self._fact_writer.read_accepted(run_subject(self.run_id))
        self._run = fold(facts)
        self._check_run()
        return version.sequence

    async def _watch(self, position: int) -> None:
        """Follow the facts of the run. A requeue always precedes the start of a later attempt."""
        following = follow_accepted(self._log, RUNS, run_subject(self.run_id))
        async with contextlib.aclosing(following):
            async for recorded in following:
                if recorded.sequence > position:
                    self._run = fold(recorded.commit.facts, self._run)
                    self._check_run()

    def _check_run(self) -> None:
        if stop := stop_for(self._run, self.number):
            self.stop(stop)

    async def _execute(self) -> None:
        self._collector.start()
        for note in self.claim.start.notes:
            await self._log_line(note)
        exited = await self._train()
        if self._stop and self._stop.engine_stop and exited.outcome == HANDED_BACK:
            exited.engine_stop.CopyFrom(await self._stop.engine_stop)
            exited.reason = exited.engine_stop.reason
        exited.reason = self.claim.prepared.redact(exited.reason)
        if self._stop or exited.outcome in (NOT_STARTED, LIMIT):
            await self._log_line(exited.reason)
        await self._telemetry.wait_for_announcements()
        # A cancel waits for nothing that can follow it.
        cancelled = exited.outcome == STOPPED
        collected = not cancelled or await self._collector.wait_until_collected(CANCEL_COLLECT_SECONDS)
        if collected:
            await self._collect_files(exited.outcome)
        await self._reports.record()
        exited.stderr_tail = self._output.tail
        exited.reason += self._telemetry.slowed_reason
        exited.counts.CopyFrom(self._telemetry.counts)
        exited.progress.CopyFrom(self.progress)
        await self._telemetry.finish()
        if await self._record_exit(exited):
            ATTEMPTS.labels(Outcome.Name(exited.outcome).lower()).inc()
            log.info("attempt.ended", run_id=self.run_id, attempt=self.number, reason=exited.reason)
        if not collected:
            self._collector.ended = True
            await self._collect_files(exited.outcome)

    async def _collect_files(self, outcome: Outcome) -> None:
        await self._collector.collect_unannounced(discovery_seconds(self._settings, outcome))
        await self._collector.finish(upload_seconds(self._settings, outcome))

    async def _train(self) -> AttemptExited:
        """Start the trainer and wait for its end."""
        prepared = self.claim.prepared
        if self._stop:
            return self._exited(self._stop)
        if prepared.obstacle:
            return self._exited(Stop(NOT_STARTED, prepared.obstacle))
        if self._telemetry.max_episodes_reached:
            # The checkpoint that it resumes from was written with the last of them.
            return self._exited(episodes_reached(self._run.spec))
        view_socket = await asyncio.to_thread(ViewSocket, prepared.run_dir)
        prepare_actor = functools.partial(fetch_actor, self._blobs, prepared.run_dir)
        async with FramePublisher(
            self._link, self.run_id, self.number, view_socket, lambda: self.progress, prepare_actor
        ):
            with TelemetrySocket(prepared.run_dir) as sockets:
                try:
                    trainer = await start_trainer(
                        self.claim, self._sandbox, view_socket, sockets, self.limits, self._log_line
                    )
                except NotStartedError as error:
                    reason = f"{prepared.command[0]} could not be started: {error}"
                    return self._exited(Stop(NOT_STARTED, reason))
                self._trainer = trainer
                return await self._supervise(trainer, sockets)

    async def _supervise(self, trainer: TrainerProcess, sockets: TelemetrySocket) -> AttemptExited:
        """Enforce limits and record progress until the trainer ends."""
        prepared = self.claim.prepared
        if self._stop:
            self._halt(trainer, self._stop)
        if limit := self._run.spec.limits.wall_seconds:
            reached = limit_reached(limit, grace_of(self._run.spec))
            self._call_later(limit, lambda: self.stop(reached))
        guard = LimitGuard(
            self.limits, self._run.spec.limits, prepared.run_dir,
            trainer.process.pid, trainer.cgroup, trainer.enforced,
        )  # fmt: skip
        mark_seconds = self._settings.stall_seconds
        self._stall = StallGuard(
            self._run.spec, trainer.process.pid, self._telemetry, prepared.redact, mark_seconds
        )
        async with alongside(
            progress=self._record_progress(),
            limits=guard.watch(self.stop),
            reports=self._reports.follow(),
            usage=report_usage(
                functools.partial(sampler_of, trainer, prepared.run_dir, prepared.environment),
                self._settings.system_seconds,
                self._telemetry.add_metrics,
            ),
            event_files=self._event_tail.follow(),
            stall=self._stall.watch(self.stop),
        ):
            if text := guard.describe():
                await self._log_line(text)
            exited = await self._wait_for_exit(trainer, guard, sockets)
        await self._event_tail.finish()
        return exited

    async def _wait_for_exit(
        self, trainer: TrainerProcess, guard: LimitGuard, sockets: TelemetrySocket
    ) -> AttemptExited:
        output = asyncio.create_task(
            self._output.follow(trainer.stdout, trainer.stderr, trainer.telemetry, sockets)
        )
        try:
            trainer_exit = await trainer.wait()
            sockets.end()
            await asyncio.sleep(0 if self._stop else self._settings.engine_signal_seconds)
            stop = self._stop
            if trainer_exit.left:
                # An unkillable process holds the pipes open: read what is there and continue.
                log.error("trainer.unkillable", run_id=self.run_id, processes=trainer_exit.left)
                await asyncio.wait({output}, timeout=UNKILLABLE_SECONDS)
            else:
                await output
        finally:
            await cancel_and_wait(output)
        if trainer_exit.unknown and stop is None:
            stop = Stop(LOST, "the trainer's reaper was killed, and the trainer with it")
        if stop is None and (trainer_exit.exit_code or trainer_exit.signal):
            stop = await asyncio.to_thread(guard.find_cause, trainer_exit.signal, trainer.hits)
        return self._exited(stop, trainer_exit)

    def _exited(self, stop: Stop | None, trainer_exit: TrainerExit | None = None) -> AttemptExited:
        how = trainer_exit or TrainerExit()
        return exited_fact(
            self.number, self._settings.worker_id, stop, how.exit_code, how.signal, self._output.last_line
        )

    async def _log_line(self, text: str) -> None:
        """Write a line of the worker into the run's log."""
        self._telemetry.log_line(self.claim.prepared.redact(text))

    async def _record_progress(self) -> None:
        """Record AttemptProgressed at intervals; heartbeats carry progress every second."""
        recorded = Progress()
        while True:
            await asyncio.sleep(self._settings.progress_seconds)
            progress = self.progress
            moved = progress.step != recorded.step or progress.counts != recorded.counts
            if moved or progress.stalled_since != recorded.stalled_since:
                fact = AttemptProgressed(attempt=self.number, progress=progress)
                await self._append(Fact(at=now_micros(), attempt_progressed=fact))
                recorded = progress

    async def _record_exit(self, exited: AttemptExited) -> bool:
        fact = Fact(at=now_micros(), attempt_exited=exited)

        def unless_recorded(history: list[Fact]) -> list[Fact]:
            if not is_open(history, self.number, self._settings.worker_id):
                return []
            # Counted against the history before this fact, so that readers of later facts reach zero.
            pending = self._uploads.pending(self.run_id, self.number, history)
            fact.attempt_exited.artifacts_pending = pending + self._collector.uncollected
            return [fact]

        return bool(await self._fact_writer.commit(attempts_subject(self.run_id), unless_recorded))

    async def _append(self, fact: Fact) -> None:
        """Append while the attempt is open and held by this worker."""
        await self._fact_writer.commit(
            attempts_subject(self.run_id),
            lambda history: [fact] if is_open(history, self.number, self._settings.worker_id) else [],
        )

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call))
