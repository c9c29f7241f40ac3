"""A worker that the test plays, on the log, and the runs it is given."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.subjects import attempts_subject, beat_subject, worker_subject
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import EXITED, AttemptExited, AttemptStarted, Fact, Progress, WorkerOnline
from runspine.wire.v1.run_pb2 import AttemptBeat, Beat, MachineStatus, Offer, Run
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub

# Nobody beats for the runs of these tests, however long they take.
PATIENT = {"RUNSPINE_STALE_AFTER": "300", "RUNSPINE_LOST_AFTER": "600"}


def spec(**fields: Any) -> RunSpec:
    return RunSpec(**{"runner": "script", "command": ["python", "train.py"], **fields})


def submit(stub: TrainerServiceStub, **fields: Any) -> Run:
    run: Run = stub.Submit(wire.SubmitRequest(spec=spec(**fields))).run
    return run


async def until_async(check: Callable[[], Awaitable[Any]], wanted: Any, seconds: float = 60.0) -> None:
    deadline, found = time.monotonic() + seconds, None
    while True:
        # A server that is busy is asked again.
        with contextlib.suppress(NatsUnreachableError):
            if (found := await check()) == wanted:
                return
        assert time.monotonic() < deadline, f"{found} instead of {wanted}"
        await asyncio.sleep(0.03)


def phase_is(stub: TrainerServiceStub, run_id: str, phase: int) -> Callable[[], bool]:
    return lambda: stub.Get(wire.GetRequest(run_id=run_id)).run.phase == phase


class PlayedWorker:
    """A worker's words on the log, without a worker."""

    def __init__(self, client: Any, worker_id: str = "w1") -> None:
        self.client = client
        self.worker_id = worker_id

    async def emit(self, subject: str, fact: Fact) -> None:
        _, version = await self.client.log.read(subject)
        await self.client.log.append(subject, [fact], expected=version)

    async def online(self) -> None:
        emitted = WorkerOnline(worker_id=self.worker_id, pools=["default"], slots=4)
        await self.emit(worker_subject(self.worker_id), Fact(at=1, worker_online=emitted))

    async def start(self, run_id: str, attempt: int = 1) -> None:
        emitted = AttemptStarted(attempt=attempt, worker_id=self.worker_id)
        await self.emit(attempts_subject(run_id), Fact(at=2, attempt_started=emitted))

    async def exit(self, run_id: str, attempt: int = 1, **fields: Any) -> None:
        emitted = AttemptExited(
            **{"attempt": attempt, "worker_id": self.worker_id, "outcome": EXITED, **fields}
        )
        await self.emit(attempts_subject(run_id), Fact(at=3, attempt_exited=emitted))

    async def beat(self, run_id: str, attempt: int = 1, step: int = 0) -> None:
        emitted = AttemptBeat(run_id=run_id, attempt=attempt, progress=Progress(step=step))
        beat = Beat(worker_id=self.worker_id, attempts=[emitted])
        await self.client.link.client.publish(beat_subject(self.worker_id), beat.SerializeToString())

    async def measure(self, machine: MachineStatus) -> None:
        """Publish a heartbeat with this state of the machine."""
        beat = Beat(worker_id=self.worker_id, machine=machine)
        await self.client.link.client.publish(beat_subject(self.worker_id), beat.SerializeToString())

    async def keep_beating(self, run_id: str) -> None:
        while True:
            await self.beat(run_id)
            await asyncio.sleep(0.2)

    async def offers(self) -> list[Offer]:
        body = json.dumps({"batch": 100, "seq": 1, "next_by_subj": "work.>"}).encode()
        replies = self.client.link.replies("$JS.API.DIRECT.GET.WORK", body)
        return [Offer.FromString(data) async for _, data in replies]

    async def count_offers(self) -> int:
        return len(await self.offers())
