"""The gRPC services that the pages call. Each call carries the token of the logged-in person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import grpc

from runspine.errors import DeniedError
from runspine.rpc.call_records import FORWARDED
from runspine.rpc.channel import Tls, open_channel
from runspine.rpc.siblings import Siblings
from runspine.rpc.trainer_client import OPTIONS, is_away, translated
from runspine.services.dashboard.edges.login.session import Session, session_of
from runspine.services.dashboard.settings import DashboardSettings
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceStub
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub

CALL_TIMEOUT_SECONDS = 20.0


class Backend:
    """Channels to the three services; shared by all pages."""

    def __init__(self, settings: DashboardSettings) -> None:
        self.addresses = {
            "trainer": settings.address,
            "telemetry": settings.telemetry_address,
            "artifacts": settings.artifacts_address,
        }
        # Whether the dashboard itself checks tokens.
        self.has_tokens_file = settings.tokens_file is not None
        tls = Tls.from_environment()

        def connect(address: str, more: Any) -> Any:
            return open_channel(address, tls, options=[*OPTIONS, *more], aio=True)

        stubs: dict[str, Any] = {
            "trainer": TrainerServiceStub,
            "telemetry": TelemetryServiceStub,
            "artifacts": ArtifactServiceStub,
        }
        self.services = {
            name: Siblings(self.addresses[name], connect, make_stub) for name, make_stub in stubs.items()
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for service in self.services.values():
            for channel in service.channels:
                await channel.close()

    def access(self, token: str, session: Session | None = None, address: str = "") -> Access:
        """Calls with this token, for a browser at this address; they end with the session."""
        return Access(self, token, session, address)

    def access_of(self, scope: Mapping[str, Any]) -> Access:
        """Calls in the name of the person who made a request."""
        session = session_of(scope)
        return self.access(session.person.token, session, (scope.get("client") or ("",))[0])


class Access:
    """Calls to the services with one person's token. Raises RunspineError with a readable message."""

    def __init__(
        self, backend: Backend, token: str, session: Session | None = None, address: str = ""
    ) -> None:
        self._backend = backend
        self._session = session
        self._token = token
        bearer = (("authorization", f"Bearer {token}"),) if token else ()
        self._metadata = (*bearer, *(((FORWARDED, address),) if address else ()))
        # Cache key of answers that this person may share. Where the dashboard checks tokens, everybody who is
        # logged in may read. Otherwise only the services know, and answers are shared per token.
        self.audience = "" if backend.has_tokens_file else token

    async def call(
        self, service: str, method: str, request: Any, timeout: float = CALL_TIMEOUT_SECONDS
    ) -> Any:
        """Unary call. Retried at other addresses of the service only; the page shows the error and refreshes
        itself later."""
        self._check()
        siblings = self._backend.services[service]
        for tried in range(len(siblings)):
            number, stub = siblings.choose()
            seconds = siblings.seconds(tried, timeout)
            try:
                return await getattr(stub, method)(request, timeout=seconds, metadata=self._metadata)
            except grpc.aio.AioRpcError as error:
                silent = seconds < timeout and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                if silent or is_away(error):
                    siblings.leave(number)
                if not silent and (tried == len(siblings) - 1 or not is_away(error)):
                    raise translated(error, siblings.addresses[number], self._token) from error
        raise AssertionError("unreachable")

    async def stream(self, service: str, method: str, request: Any) -> AsyncIterator[Any]:
        """Messages of a server stream until it ends."""
        self._check()
        siblings = self._backend.services[service]
        number, stub = siblings.choose()
        call = getattr(stub, method)(request, metadata=self._metadata)
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            if is_away(error):
                siblings.leave(number)
            raise translated(error, siblings.addresses[number], self._token) from error
        finally:
            call.cancel()

    def _check(self) -> None:
        """Raises DeniedError when the session is over: a page that is still open must not act."""
        if self._session is not None and self._session.over.is_set():
            raise DeniedError(self._session.why)
