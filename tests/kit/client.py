"""A client that asks again until somebody answers."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

import grpc

from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub


class Place(Protocol):
    """A stack, or what stands for one."""

    @property
    def addresses(self) -> dict[str, str]: ...

    @property
    def token(self) -> str: ...


class PatientClient:
    """Asks again until somebody answers, under the same key."""

    def __init__(self, stack: Place) -> None:
        self._stack = stack
        self._auth = [("authorization", f"Bearer {stack.token}")]

    async def call(self, method: str, request: object, seconds: float = 60.0) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            async with grpc.aio.insecure_channel(self._stack.addresses["orchestrator"]) as channel:
                try:
                    return await getattr(TrainerServiceStub(channel), method)(
                        request, metadata=self._auth, timeout=10
                    )
                except grpc.RpcError as error:
                    transient = error.code() in (
                        grpc.StatusCode.UNAVAILABLE,
                        grpc.StatusCode.DEADLINE_EXCEEDED,
                        grpc.StatusCode.ABORTED,
                        grpc.StatusCode.CANCELLED,
                    )
                    if not transient or time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.1)

    async def read_log(self, stream: str) -> list[tuple[str, Commit]]:
        async with grpc.aio.insecure_channel(self._stack.addresses["orchestrator"]) as channel:
            call = TrainerServiceStub(channel).ReadLog(
                wire.ReadLogRequest(stream=stream), metadata=self._auth
            )
            return [(r.subject, Commit.FromString(r.commit)) async for r in call]

    async def until_phase(self, run_id: str, phase: int, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while (now := (await self.call("Get", wire.GetRequest(run_id=run_id))).run).phase != phase:
            assert time.monotonic() < deadline, f"{Phase.Name(now.phase)}: {now.reason}"
            await asyncio.sleep(0.2)
