"""Faults that Runspine once had, switched back on: the simulator must find each of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from runspine.eventlog import (
    ConflictError,
    EventLog,
    Recorded,
    Version,
    publisher,
    reads,
    server_errors,
    streams,
)
from runspine.eventlog.admission import accepted_history
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import PublishRefusedError
from runspine.eventlog.reads import READ_BATCH, SubjectReader
from runspine.eventlog.server_errors import Verdict
from runspine.eventlog.subjects import RUNS, stream_of
from runspine.services.launcher.core import runs as launcher_runs
from runspine.services.orchestrator.core.indexes import queues
from runspine.services.orchestrator.core.leases import Leases
from runspine.services.orchestrator.edges.trainer_service import TrainerServicer
from runspine.services.worker.attempt import recovery
from runspine.services.worker.claim import claim, single_run
from runspine.services.worker.process.trainer_process import REAPER_LOCK
from runspine.wire.v1.facts_pb2 import Fact, KeyReserved
from runspine.wire.v1.run_pb2 import Run
from tests.simulation import log_writers
from tests.simulation.reinjected_storage import STORAGE_INJECTIONS


@contextmanager
def transient_refused() -> Iterator[None]:
    """10158 "duplicate message id is in process" was taken for a refusal: processes crashed at R=3."""
    row = replace(server_errors.TABLE[10158], verdict=Verdict.REFUSE)
    with patch.dict(server_errors.TABLE, {10158: row}):
        yield


@contextmanager
def reads_that_lag() -> Iterator[None]:
    """Decisions rested on direct gets, which a follower that lags may answer: one key, two runs."""

    async def history(self: SubjectReader, subject: str) -> list[Recorded]:
        stream = stream_of(subject)
        body = json.dumps({"batch": READ_BATCH, "seq": 1, "next_by_subj": subject}).encode()
        answers = self._link.replies(f"$JS.API.DIRECT.GET.{stream}", body)
        found = [reads._from_direct(stream, headers, data) async for headers, data in answers]
        return accepted_history(found)

    async def own_or_conflict(
        self: JetStreamLog, subject: str, _: Version, commit_id: str, error: PublishRefusedError
    ) -> Version:
        found, version = await self.read(subject)
        for recorded in reversed(found):
            if recorded.commit.id == commit_id:
                return recorded.version()
        raise ConflictError(f"{subject} is at commit {version.number}") from error

    async def reserve(log: EventLog, subject: str, mine: list[Fact]) -> KeyReserved:
        found, _ = await log.read(subject)
        if not found:
            try:
                await log.append(subject, mine, expected=Version())
            except ConflictError:
                found, _ = await log.read(subject)
        return (found[0].commit.facts if found else mine)[0].key_reserved

    with (
        patch.object(SubjectReader, "history", history),
        patch.object(JetStreamLog, "_own_or_conflict", own_or_conflict),
        patch.object(log_writers, "reserve", reserve),
    ):
        yield


@contextmanager
def persist_mode_kept() -> Iterator[None]:
    """BEATS was updated in place from one replica to three, which the server refuses at every start."""
    before = streams._update

    async def update(link: Any, current: dict[str, Any], config: dict[str, Any]) -> Any:
        known = {
            **current,
            "config": {**current["config"], "persist_mode": config.get("persist_mode", "default")},
        }
        return await before(link, known, config)

    with patch.object(streams, "_update", update):
        yield


@contextmanager
def conflict_guessed() -> Iterator[None]:
    """A refused append was a conflict at once, also when its first try had been stored and the reply lost."""

    async def own_or_conflict(self: JetStreamLog, subject: str, *_: object) -> Version:
        raise ConflictError(subject)

    with patch.object(JetStreamLog, "_own_or_conflict", own_or_conflict):
        yield


@contextmanager
def answer_behind_believed() -> Iterator[None]:
    """A refusal by a deposed leader, which lacks what the writer has read, was taken for a conflict."""
    with patch.object(publisher, "_is_behind", lambda *_: False):
        yield


@contextmanager
def survivors_left() -> Iterator[None]:
    """A restarted worker waited for a trainer whose reaper was stopped, and sent no heartbeats for it: the
    attempt was given up, and the next one trained at the same time."""

    async def end_processes(self: recovery.Recovery, entry: Any) -> None:
        lock = Path(entry.directory) / REAPER_LOCK
        hosts = recovery.end_survivors.__self__  # type: ignore[attr-defined]
        while hosts.survivors(str(lock.parent)):
            self._closing.pop(entry.name, None)
            await asyncio.sleep(1.0)

    with patch.object(recovery.Recovery, "_end_processes", end_processes):
        yield


@contextmanager
def board_behind() -> Iterator[None]:
    """A call was answered although the board did not show its change yet: the next read went back."""

    async def require(self: Projector, stream: str, sequence: int) -> None:
        await self.reached(stream, sequence)

    with patch.object(Projector, "require", require):
        yield


@contextmanager
def refusal_ahead() -> Iterator[None]:
    """A refusal was given before the board had what it rests on: the next read went back."""

    async def command(self: TrainerServicer, run_id: str, given: Any) -> Any:
        handled = await self._trainer.scheduler.command(run_id, given)
        await self._trainer.projector.require(RUNS, handled.position)
        return handled

    with patch.object(TrainerServicer, "_command", command):
        yield


@contextmanager
def claim_without_lock() -> Iterator[None]:
    """A claim was written without looking whether another worker had it: an attempt was executed twice."""
    with patch.object(claim, "is_taken", lambda *_: False):
        yield


@contextmanager
def stalled_beats_count() -> Iterator[None]:
    """Silence counted although the stream of heartbeats stored nothing: every run was given up."""
    before = Leases.due_command

    def due_command(self: Leases, run: Any, _: float, *rest: Any) -> Any:
        return before(self, run, time.monotonic(), *rest)

    checked = Leases.due

    def due(self: Leases, _: float) -> list[str]:
        return checked(self, time.monotonic())

    def record_arrival(self: Leases, now: float) -> None:
        self.last_arrival = now

    with (
        patch.object(Leases, "due", due),
        patch.object(Leases, "due_command", due_command),
        patch.object(Leases, "record_arrival", record_arrival),
    ):
        yield


@contextmanager
def retry_by_worker_clock() -> Iterator[None]:
    """A retry was dated by the clock of the worker that reported the end: the run waited for a day."""
    # The package has a function of the same name.
    decide: Any = import_module("runspine.domain.run.decide")
    failed, lost = decide._failed, decide._lost

    def rests(run: Run, now: int) -> bool:
        return now < run.not_before

    with (
        patch.object(decide, "_failed", lambda run, at, _, *rest: failed(run, at, at, *rest)),
        patch.object(decide, "_lost", lambda run, at, _, *rest: lost(run, at, at, *rest)),
        patch.object(queues, "rests", rests),
        patch.object(single_run, "rests", rests),
        patch.object(launcher_runs, "rests", rests),
    ):
        yield


@contextmanager
def frozen_follower_read() -> Iterator[None]:
    """Reads waited for a replica that hangs: a frozen follower stopped writes for its whole freeze."""
    with patch.object(reads, "DIRECT_SECONDS", 30.0), patch.object(reads, "LEADER_ONLY_SECONDS", 0.0):
        yield


Injection = Callable[[], AbstractContextManager[None]]
# By name: the patch, and the kind of schedule that finds it.
INJECTIONS: Mapping[str, tuple[Injection, str]] = {
    "transient-refused": (transient_refused, "log"),
    "reads-that-lag": (reads_that_lag, "log"),
    "persist-mode-kept": (persist_mode_kept, "log"),
    "conflict-guessed": (conflict_guessed, "log"),
    "answer-behind": (answer_behind_believed, "log"),
    "survivors-left": (survivors_left, "control"),
    "board-behind": (board_behind, "control"),
    "refusal-ahead": (refusal_ahead, "control"),
    "frozen-follower": (frozen_follower_read, "log"),
    "stalled-beats": (stalled_beats_count, "control"),
    "retry-by-worker-clock": (retry_by_worker_clock, "control"),
    "claim-without-lock": (claim_without_lock, "control"),
    **STORAGE_INJECTIONS,
}
