"""The worker's own presence: online, offline, and a beat every second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from runspine import __version__
from runspine.log.link import Link, Unreachable
from runspine.log.subjects import beat_subject, worker_subject
from runspine.runners import Runner
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import Capacity, Fact, Progress, WorkerOffline, WorkerOnline
from runspine.wire.v1.run_pb2 import AttemptBeat, Beat, Waiting
from services.worker.preparation import describe
from services.worker.pythons import python_for
from services.worker.recorder import Recorder, now
from services.worker.runners.env_ids import find_ids, kept_ids
from services.worker.settings import WorkerSettings


class Held(Protocol):
    """An attempt that this worker speaks for."""

    @property
    def run_id(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def progress(self) -> Progress: ...


class Roster:
    def __init__(self, settings: WorkerSettings, link: Link, recorder: Recorder) -> None:
        self._settings = settings
        self._link = link
        self._recorder = recorder
        # Env ids by Python.
        self._envs: dict[str, list[str]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def online(self, runners: Mapping[str, Runner], capacity: Capacity) -> None:
        """Say what this worker can do; once more when it turns out which envs its runners know."""
        unknown = await self._online(runners, capacity)
        if unknown:
            self._asking = asyncio.create_task(self._ask_envs(unknown, runners, capacity), name="envs")

    async def leave(self) -> None:
        if self._asking:
            await put_down(self._asking)

    async def _ask_envs(self, pythons: set[str], runners: Mapping[str, Runner], capacity: Capacity) -> None:
        """Importing Gymnasium takes a while: runs are taken up meanwhile."""
        for python in pythons:
            self._envs[python] = await asyncio.to_thread(find_ids, python)
        if any(self._envs.values()):
            await self._online(runners, capacity)

    async def _online(self, runners: Mapping[str, Runner], capacity: Capacity) -> set[str]:
        infos = [describe(name, runner, self._settings.runner_python) for name, runner in runners.items()]
        unknown: set[str] = set()
        for info in infos:
            if not info.open_envs or info.not_ready:
                continue
            python = python_for(info.name, self._settings.runner_python, os.environ)
            if python not in self._envs and (kept := await asyncio.to_thread(kept_ids, python)):
                self._envs[python] = kept
            if python in self._envs:
                info.envs.extend(self._envs[python])
            else:
                unknown.add(python)
        said = WorkerOnline(
            worker_id=self._settings.worker_id,
            host=socket.gethostname(),
            pools=self._settings.pools,
            slots=self._settings.worker_slots,
            runners=infos,
            version=__version__,
            capacity=capacity,
        )
        await self._say(Fact(at=now(), worker_online=said))
        return unknown

    async def offline(self, reason: str) -> None:
        said = WorkerOffline(worker_id=self._settings.worker_id, reason=reason)
        await self._say(Fact(at=now(), worker_offline=said))

    async def beat(self, held: Callable[[], Iterable[Held]], waiting: Callable[[], list[Waiting]]) -> None:
        """Say every second what is held. Nothing is queued for a server that is away."""
        while True:
            beat = Beat(
                worker_id=self._settings.worker_id,
                at=now(),
                attempts=[
                    AttemptBeat(run_id=attempt.run_id, attempt=attempt.number, progress=attempt.progress)
                    for attempt in held()
                ],
                waiting=waiting(),
            )
            if self._link.connected:
                with contextlib.suppress(Unreachable):
                    await self._link.tell(beat_subject(self._settings.worker_id), beat.SerializeToString())
            await asyncio.sleep(self._settings.beat_seconds)

    async def _say(self, fact: Fact) -> None:
        await self._recorder.settle(worker_subject(self._settings.worker_id), lambda _: [fact])
