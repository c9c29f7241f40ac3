"""Asynchronous calls of the services, with the retries of the synchronous client."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

import grpc

from runspine.rpc.channel import Tls, open_channel
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.siblings import Siblings
from runspine.rpc.trainer_client import CALL_SECONDS, OPTIONS, STREAM_RETRY_SECONDS, is_away, translated
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceStub
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub

Answer = TypeVar("Answer")
TRAINER, TELEMETRY, ARTIFACTS = "trainer", "telemetry", "artifacts"
STUBS: dict[str, Any] = {
    TRAINER: TrainerServiceStub,
    TELEMETRY: TelemetryServiceStub,
    ARTIFACTS: ArtifactServiceStub,
}


class AsyncClient:
    """Calls and streams of the three services. Belongs to one event loop. Raises RunspineError."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        token = endpoint.token
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self._services: dict[str, Siblings] = {}

    async def close(self) -> None:
        services, self._services = self._services, {}
        for service in services.values():
            for channel in service.channels:
                await channel.close()

    async def call(self, service: str, method: str, request: Any, kind: type[Answer]) -> Answer:
        """Call a method; as `Client` does, UNAVAILABLE is retried with the same request."""
        siblings = self._siblings(service)
        give_up = time.monotonic() + self.endpoint.patience
        pause = 0.1
        for tried in itertools.count():
            number, stub = siblings.choose()
            seconds = siblings.seconds(tried, CALL_SECONDS)
            try:
                answer = await getattr(stub, method)(request, timeout=seconds, metadata=self._metadata)
                assert isinstance(answer, kind)
                return answer
            except grpc.aio.AioRpcError as error:
                again = (tried + 1) % len(siblings) > 0
                silent = seconds < CALL_SECONDS and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                away = silent or is_away(error)
                if not away or (not again and time.monotonic() + pause > give_up):
                    raise translated(error, siblings.addresses[number], self.endpoint.token) from error
            siblings.leave(number)
            if not again:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)
        raise AssertionError("unreachable")

    async def stream(
        self, service: str, method: str, request: Any, *, on_retry: Callable[[], None] | None = None
    ) -> AsyncGenerator[Any, None]:
        """Messages of a stream; the caller advances `request`, so that a retry continues there."""
        siblings = self._siblings(service)
        away_since: float | None = None
        patience, pause, tried = self.endpoint.patience, 0.1, 0
        while True:
            number, stub = siblings.choose()
            call = getattr(stub, method)(request, metadata=self._metadata)
            try:
                async for message in call:
                    away_since, pause, patience, tried = None, 0.1, STREAM_RETRY_SECONDS, 0
                    yield message
                return
            except grpc.aio.AioRpcError as error:
                now = time.monotonic()
                tried += 1
                away_since = now if away_since is None else away_since
                again = tried % len(siblings) > 0
                if not is_away(error) or (not again and now + pause > away_since + patience):
                    raise translated(error, siblings.addresses[number], self.endpoint.token) from error
            finally:
                call.cancel()
            siblings.leave(number)
            if on_retry is not None:
                on_retry()
            if not again:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)

    def _siblings(self, service: str) -> Siblings:
        """Channels are opened by the first call, in the event loop that they belong to."""
        if service not in self._services:
            self._services[service] = Siblings(getattr(self.endpoint, service), self._open, STUBS[service])
        return self._services[service]

    def _open(self, address: str, more: Any) -> Any:
        tls = Tls.from_environment() if self.endpoint.tls is None else self.endpoint.tls
        return open_channel(address, tls, options=[*OPTIONS, *more], token=self.endpoint.token, aio=True)
