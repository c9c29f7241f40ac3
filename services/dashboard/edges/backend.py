"""The gRPC services behind the page. Each call carries the token of the person who looks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import grpc

from runspine.channel import Tls, open_channel
from runspine.client import OPTIONS, translated
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceStub
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from services.dashboard.settings import DashboardSettings

DEADLINE = 20.0


class Backend:
    """Channels to the three services; shared by all pages."""

    def __init__(self, settings: DashboardSettings) -> None:
        self.addresses = {
            "trainer": settings.address,
            "telemetry": settings.telemetry_address,
            "artifacts": settings.artifacts_address,
        }
        # Whether this page itself knows whom it lets in.
        self.has_list = settings.tokens_file is not None
        tls = Tls.from_environment()
        self._channels = {
            name: open_channel(address, tls, options=OPTIONS, aio=True)
            for name, address in self.addresses.items()
        }
        self.stubs: dict[str, Any] = {
            "trainer": TrainerServiceStub(self._channels["trainer"]),
            "telemetry": TelemetryServiceStub(self._channels["telemetry"]),
            "artifacts": ArtifactServiceStub(self._channels["artifacts"]),
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels.values():
            await channel.close()

    def seen_by(self, token: str) -> Access:
        return Access(self, token)


class Access:
    """The services as one person may use them. Raises RunspineError with a message for people."""

    def __init__(self, backend: Backend, token: str) -> None:
        self._backend = backend
        self._token = token
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        # Who may see an answer that was given to this person: everybody whom the page has let in, for all of
        # them may read; where it lets everybody in, the services alone know, and then nobody else.
        self.audience = "" if backend.has_list else token

    async def ask(self, service: str, method: str, request: Any, timeout: float = DEADLINE) -> Any:
        """One answer. No retry: a page that could not be drawn says so and tries again."""
        call = getattr(self._backend.stubs[service], method)
        try:
            return await call(request, timeout=timeout, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise translated(error, self._backend.addresses[service], self._token) from error

    async def send(self, service: str, method: str, parts: AsyncIterator[Any]) -> Any:
        """A stream of requests, and its one answer."""
        call = getattr(self._backend.stubs[service], method)
        try:
            return await call(parts, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise translated(error, self._backend.addresses[service], self._token) from error

    async def follow(self, service: str, method: str, request: Any) -> AsyncIterator[Any]:
        """Messages of a stream until it ends."""
        call = getattr(self._backend.stubs[service], method)(request, metadata=self._metadata)
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            raise translated(error, self._backend.addresses[service], self._token) from error
        finally:
            call.cancel()
