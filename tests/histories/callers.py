"""Clients that call at random, several at once, on the same runs and keys; every call is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from tests.histories.calls import Recording
from tests.histories.recorder import RecordedStub

CALL_SECONDS = 10.0
# How often each call is made, relative to the others.
CALLS = {"submit": 1.0, "again": 0.5, "get": 6.0, "list": 0.5, "priority": 1.5, "labels": 2.0, "cancel": 0.3}
# Calls are about the newest runs, so that several clients meet at each.
MAX_KNOWN = 8


@dataclass
class Meeting:
    """What the callers share: runs, keys, and the specs that were given with them."""

    spec: Callable[[int], RunSpec]
    # Labels of all these runs, where others have runs of their own.
    labels: Mapping[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    keys: list[wire.SubmitRequest] = field(default_factory=list)
    # Keys that are not answered yet, for a second client at the same time.
    number: int = 0

    def new_request(self) -> wire.SubmitRequest:
        self.number += 1
        request = wire.SubmitRequest(spec=self.spec(self.number), idempotency_key=f"key-{self.number}")
        self.keys = [*self.keys[1 - MAX_KNOWN :], request]
        return request

    def made(self, run_id: str) -> None:
        if run_id not in self.runs:
            self.runs = [*self.runs[1 - MAX_KNOWN :], run_id]


class Caller:
    """One session: one client of one orchestrator, one call after the other."""

    def __init__(
        self,
        meeting: Meeting,
        address: str,
        session: str,
        recording: Recording,
        seed: int,
        auth: Sequence[Any] = (),
        calls: Mapping[str, float] = CALLS,
    ) -> None:
        self._meeting = meeting
        self._address = address
        self._session = session
        self._recording = recording
        self._chance = random.Random(f"{seed} {session}")
        self._auth = list(auth)
        self._calls = calls

    async def call_until(self, stop: asyncio.Event, pause: float = 0.0) -> None:
        """Call at random; an error is recorded, and another call follows."""
        async with grpc.aio.insecure_channel(
            self._address, options=[("grpc.max_reconnect_backoff_ms", 500)]
        ) as channel:
            stub: Any = RecordedStub(TrainerServiceStub(channel), self._recording, self._session)
            while not stop.is_set():
                with contextlib.suppress(grpc.RpcError):
                    await self._one(stub)
                await asyncio.sleep(pause * self._chance.uniform(0.5, 1.5))

    async def _one(self, stub: Any) -> None:
        runs = self._meeting.runs
        kind = self._chance.choices(list(self._calls), list(self._calls.values()))[0] if runs else "submit"
        more = {"metadata": self._auth, "timeout": CALL_SECONDS}
        run_id = self._chance.choice(runs) if runs else ""
        match kind:
            case "submit" | "again":
                known = self._meeting.keys
                request = (
                    self._chance.choice(known) if kind == "again" and known else self._meeting.new_request()
                )
                self._meeting.made((await stub.Submit(request, **more)).run.id)
            case "get":
                await stub.Get(wire.GetRequest(run_id=run_id), **more)
            case "list":
                await stub.List(wire.ListRequest(page_size=MAX_KNOWN, labels=self._meeting.labels), **more)
            case "priority":
                value = self._chance.randint(0, 100)
                await stub.SetPriority(wire.SetPriorityRequest(run_id=run_id, priority=value), **more)
            case "labels":
                changes = {self._chance.choice("abc"): self._chance.choice(["", "x", "y", "z"])}
                await stub.SetLabels(wire.SetLabelsRequest(run_id=run_id, labels=changes), **more)
            case "cancel":
                await stub.Cancel(wire.CancelRequest(run_id=run_id), **more)
