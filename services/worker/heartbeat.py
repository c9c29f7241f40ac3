"""Presence of the worker: WorkerOnline, WorkerOffline and a heartbeat every second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import structlog

from runspine import __version__
from runspine.clock import now_micros
from runspine.eventlog import CorruptError
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.subjects import beat_subject, worker_subject
from runspine.runners import Runner
from runspine.services.worker.claim.preparation import describe
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.process.sandbox import Sandbox
from runspine.services.worker.runners.env_ids import cached_env_ids, list_env_ids
from runspine.services.worker.runners.interpreter import python_for
from runspine.services.worker.settings import WorkerSettings
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import Capacity, Fact, Progress, WorkerOffline, WorkerOnline
from runspine.wire.v1.run_pb2 import AttemptBeat, Beat, CachedDataset, MachineStatus, Waiting

log = structlog.get_logger()

# Pause before a worker with a quarantined subject announces itself again.
QUARANTINE_SECONDS = 10.0


class HeldAttempt(Protocol):
    """An attempt that the worker's heartbeats report."""

    @property
    def run_id(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def progress(self) -> Progress: ...


class Heartbeat:
    """Publishes the worker's presence and the attempts that it holds."""

    def __init__(
        self, settings: WorkerSettings, link: NatsConnection, fact_writer: FactWriter, sandbox: Sandbox
    ) -> None:
        self._settings = settings
        self._sandbox = sandbox
        self._link = link
        self._fact_writer = fact_writer
        # Env ids by Python.
        self._envs: dict[str, list[str]] = {}
        self._listing: asyncio.Task[None] | None = None

    async def online(self, runners: Mapping[str, Runner], capacity: Capacity) -> None:
        """Record WorkerOnline; again once the envs that its runners know have been listed."""
        try:
            unknown = await self._online(runners, capacity)
        except CorruptError as error:
            log.error("worker.quarantined", worker_id=self._settings.worker_id, error=str(error))
            self._listing = asyncio.create_task(self._online_later(runners, capacity), name="announce")
            return
        if unknown:
            self._listing = asyncio.create_task(self._list_envs(unknown, runners, capacity), name="envs")

    async def _online_later(self, runners: Mapping[str, Runner], capacity: Capacity) -> None:
        """Record it once the worker's subject is released. Offers are claimed meanwhile."""
        while True:
            await asyncio.sleep(QUARANTINE_SECONDS)
            with contextlib.suppress(CorruptError):
                await self._list_envs(await self._online(runners, capacity), runners, capacity)
                return

    async def leave(self) -> None:
        """Stop listing envs."""
        if self._listing:
            await cancel_and_wait(self._listing)

    async def _list_envs(self, pythons: set[str], runners: Mapping[str, Runner], capacity: Capacity) -> None:
        """Importing Gymnasium takes a while: offers are claimed meanwhile."""
        for python in pythons:
            self._envs[python] = await asyncio.to_thread(list_env_ids, python)
        if any(self._envs.values()):
            await self._online(runners, capacity)

    async def _online(self, runners: Mapping[str, Runner], capacity: Capacity) -> set[str]:
        infos = [describe(name, runner, self._settings.runner_python) for name, runner in runners.items()]
        unknown: set[str] = set()
        for info in infos:
            if not info.open_envs or info.not_ready:
                continue
            python = python_for(info.name, self._settings.runner_python, os.environ)
            if python not in self._envs and (kept := await asyncio.to_thread(cached_env_ids, python)):
                self._envs[python] = kept
            if python in self._envs:
                info.envs.extend(self._envs[python])
            else:
                unknown.add(python)
        fact = WorkerOnline(
            worker_id=self._settings.worker_id,
            host=socket.gethostname(),
            pools=self._settings.pools,
            slots=self._settings.worker_slots,
            runners=infos,
            version=__version__,
            capacity=capacity,
            sandbox=self._sandbox.engine,
            sandbox_missing=self._sandbox.missing,
        )
        await self._append(Fact(at=now_micros(), worker_online=fact))
        return unknown

    async def offline(self, reason: str) -> None:
        """Record WorkerOffline."""
        fact = WorkerOffline(worker_id=self._settings.worker_id, reason=reason)
        try:
            await self._append(Fact(at=now_micros(), worker_offline=fact))
        except CorruptError as error:
            log.error("worker.quarantined", worker_id=self._settings.worker_id, error=str(error))

    async def beat(
        self,
        held: Callable[[], Iterable[HeldAttempt]],
        waiting: Callable[[], list[Waiting]],
        cached: Callable[[], list[CachedDataset]],
        measured: Callable[[], MachineStatus | None],
    ) -> None:
        """Publish a heartbeat every second, until cancelled. Nothing is queued while NATS is unavailable."""
        while True:
            connected = self._link.connected
            beat = Beat(
                worker_id=self._settings.worker_id,
                at=now_micros(),
                attempts=[
                    AttemptBeat(run_id=attempt.run_id, attempt=attempt.number, progress=attempt.progress)
                    for attempt in held()
                ],
                waiting=waiting(),
                cached_datasets=cached(),
                # Only once for each measurement: heartbeats stay small.
                machine=measured() if connected else None,
            )
            if connected:
                with contextlib.suppress(NatsUnreachableError):
                    await self._link.publish(beat_subject(self._settings.worker_id), beat.SerializeToString())
            await asyncio.sleep(self._settings.beat_seconds)

    async def _append(self, fact: Fact) -> None:
        await self._fact_writer.commit(worker_subject(self._settings.worker_id), lambda _: [fact])
