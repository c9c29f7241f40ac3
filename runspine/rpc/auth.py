"""Bearer tokens of gRPC calls and their scopes."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from runspine.rpc.call_rate import CallRate
from runspine.rpc.call_records import Audit, CallRecords
from runspine.rpc.handlers import wrap_handler
from runspine.rpc.token_file import SCOPES, Token
from runspine.rpc.token_store import TokenStore

READS = ("Get", "List", "Watch", "Validate", "Read", "Describe", "Stream", "Query", "Recent", "Search")
# Methods that remove artifacts, set rules, or show what others do.
ADMINS = ("Prune", "UndoPrune", "SetRetention", "RemoveOrphans", "SearchAudit")
# Open streams of a token that is no longer valid end within this time.
STREAM_CHECK_SECONDS = 0.5
NO_TOKEN = "a token is needed: set RUNSPINE_TOKEN, or RUNSPINE_HOME to the home of the stack"
caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="")
# Of a stack without tokens anybody may do everything.
caller_scope: contextvars.ContextVar[str] = contextvars.ContextVar("caller_scope", default="admin")

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable["grpc.RpcMethodHandler[Any, Any]"]]


@dataclass(slots=True, eq=False)
class OpenStream:
    """A call that sends or receives messages for as long as it likes, and the token that it began with."""

    digest: str
    task: asyncio.Task[Any]
    refusal: str = ""


class TokenAuth(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Refuses calls without a valid token, and calls that need a larger scope than the token has.

    Open streams end when their token is revoked or expires, while `watch_streams` runs. Refusals and calls
    that change something are recorded.
    """

    def __init__(
        self, tokens: TokenStore | None, audit: Audit | None = None, calls_per_second: float = 0.0
    ) -> None:
        self._tokens = tokens
        self._rate = CallRate(calls_per_second)
        self._audit = audit
        self._streams: set[OpenStream] = set()

    @classmethod
    def from_file(
        cls, path: Path | None, audit: Audit | None = None, calls_per_second: float = 0.0
    ) -> TokenAuth:
        """Tokens of a file; None means that anybody may call. 0 calls a second means no limit."""
        return cls(None if path is None else TokenStore(path), audit, calls_per_second)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any]:
        details = handler_call_details
        service, _, method = details.method.lstrip("/").partition("/")
        if service == "grpc.health.v1.Health":
            return await continuation(details)
        token = self._tokens.find(_bearer(details)) if self._tokens is not None else None
        needed = needed_scope(method) if service.startswith("runspine.") else "read"
        if self._tokens is not None:
            if refusal := _refusal(token, method, needed):
                return self._refuse(details, token, *refusal)
            assert token is not None
            caller.set(token.name)
            caller_scope.set(token.scope)
            if excess := self._rate.refusal(token.name):
                return self._refuse(details, token, grpc.StatusCode.RESOURCE_EXHAUSTED, excess)
        handler: Any = await continuation(details)
        if handler is None:
            return handler  # type: ignore[return-value] # there is no such method, which gRPC reports
        if token is not None and (handler.request_streaming or handler.response_streaming):
            handler = wrap_handler(handler, lambda _, context: self._watching(token.sha256, context))
        if self._audit is not None and needed != "read":
            name, scope = (token.name, token.scope) if token is not None else ("", "")
            handler = wrap_handler(handler, CallRecords(self._audit, details, name, scope).around)
        return handler  # type: ignore[no-any-return]

    async def watch_streams(self) -> None:
        """End open streams whose token is no longer valid, until cancelled."""
        while self._tokens is not None:
            await asyncio.sleep(STREAM_CHECK_SECONDS)
            refusals = {stream.digest: "" for stream in self._streams}
            for digest in refusals:
                refusals[digest] = self._tokens.refusal(digest)
            for stream in self._streams:
                if not stream.refusal and refusals[stream.digest]:
                    stream.refusal = refusals[stream.digest]
                    stream.task.cancel()

    @contextlib.asynccontextmanager
    async def _watching(
        self, digest: str, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Callable[[Any], None]]:
        """The call is known to `watch_streams` while it is open; a caller whose token ends learns why."""
        task = asyncio.current_task()
        assert task is not None
        stream = OpenStream(digest, task)
        self._streams.add(stream)
        try:
            yield lambda _: None
        except asyncio.CancelledError:
            if stream.refusal:
                task.uncancel()
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, stream.refusal)
            raise
        finally:
            self._streams.discard(stream)

    def _refuse(
        self, details: grpc.HandlerCallDetails, token: Token | None, code: grpc.StatusCode, message: str
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler of streams, whatever the method is: it ends the call before a message is read."""
        audit = self._audit

        async def abort(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            if audit is not None:
                name, scope = (token.name, token.scope) if token is not None else ("", "")
                CallRecords(audit, details, name, scope).refused(context, code, message)
            await context.abort(code, message)

        return grpc.stream_unary_rpc_method_handler(abort)


def _refusal(token: Token | None, method: str, needed: str) -> tuple[grpc.StatusCode, str] | None:
    """Why a token may not call a method; None when it may."""
    reason = NO_TOKEN if token is None else token.refusal(time.time())
    if token is None or reason:
        return grpc.StatusCode.UNAUTHENTICATED, reason
    if SCOPES.index(token.scope) >= SCOPES.index(needed):
        return None
    may = "only read" if token.scope == "read" else "run and read"
    text = f"token {token.name!r} may {may}; {method} needs the scope {needed!r}"
    return grpc.StatusCode.PERMISSION_DENIED, text


def _bearer(details: grpc.HandlerCallDetails) -> str:
    given = dict(details.invocation_metadata or ()).get("authorization", "")
    text = given.decode(errors="replace") if isinstance(given, bytes) else given
    return text.removeprefix("Bearer ")


def needed_scope(method: str) -> str:
    """The smallest scope that may call a method."""
    if method in ADMINS:
        return "admin"
    return "read" if method.startswith(READS) else "run"
