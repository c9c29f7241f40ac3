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

from runspine.rpc.token_file import SCOPES
from runspine.rpc.token_store import TokenStore

READS = ("Get", "List", "Watch", "Validate", "Read", "Describe", "Stream", "Query", "Recent", "Search")
# Methods that remove artifacts, or set rules, of all users.
ADMINS = ("Prune", "UndoPrune", "SetRetention", "RemoveOrphans")
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

    Open streams end when their token is revoked or expires, while `watch_streams` runs.
    """

    def __init__(self, tokens: TokenStore | None) -> None:
        self._tokens = tokens
        self._streams: set[OpenStream] = set()

    @classmethod
    def from_file(cls, path: Path | None) -> TokenAuth:
        """Tokens of a file; None means that anybody may call."""
        return cls(None if path is None else TokenStore(path))

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any]:
        service, _, method = handler_call_details.method.lstrip("/").partition("/")
        if self._tokens is None or service == "grpc.health.v1.Health":
            return await continuation(handler_call_details)
        token = self._tokens.find(_bearer(handler_call_details))
        refusal = NO_TOKEN if token is None else token.refusal(time.time())
        if token is None or refusal:
            return _refuse(grpc.StatusCode.UNAUTHENTICATED, refusal)
        needed = needed_scope(method) if service.startswith("runspine.") else "read"
        if SCOPES.index(token.scope) < SCOPES.index(needed):
            may = "only read" if token.scope == "read" else "run and read"
            return _refuse(
                grpc.StatusCode.PERMISSION_DENIED,
                f"token {token.name!r} may {may}; {method} needs the scope {needed!r}",
            )
        caller.set(token.name)
        caller_scope.set(token.scope)
        return self._watched(await continuation(handler_call_details), token.sha256)

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

    def _watched(
        self, handler: grpc.RpcMethodHandler[Any, Any] | None, digest: str
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """The handler, with its call known to `watch_streams` while it is open."""
        if handler is None or not (handler.request_streaming or handler.response_streaming):
            return handler  # type: ignore[return-value] # None: no such method, which gRPC reports
        kinds: dict[str, Any] = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if not handler.response_streaming:
            answer = handler.stream_unary
            return grpc.stream_unary_rpc_method_handler(self._watched_unary(answer, digest), **kinds)
        if handler.request_streaming:
            behaviour = self._watched_stream(handler.stream_stream, digest)
            return grpc.stream_stream_rpc_method_handler(behaviour, **kinds)
        behaviour = self._watched_stream(handler.unary_stream, digest)
        return grpc.unary_stream_rpc_method_handler(behaviour, **kinds)

    def _watched_stream(self, inner: Any, digest: str) -> Any:
        async def behaviour(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            stream = self._opened(digest)
            try:
                async with contextlib.aclosing(inner(request, context)) as messages:
                    async for message in messages:
                        yield message
            except asyncio.CancelledError:
                await _end_revoked(stream, context)
                raise
            finally:
                self._streams.discard(stream)

        return behaviour

    def _watched_unary(self, inner: Any, digest: str) -> Any:
        async def behaviour(requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            stream = self._opened(digest)
            try:
                return await inner(requests, context)
            except asyncio.CancelledError:
                await _end_revoked(stream, context)
                raise
            finally:
                self._streams.discard(stream)

        return behaviour

    def _opened(self, digest: str) -> OpenStream:
        task = asyncio.current_task()
        assert task is not None
        stream = OpenStream(digest, task)
        self._streams.add(stream)
        return stream


async def _end_revoked(stream: OpenStream, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    """The reason for the caller when its token ended the stream; nothing when the caller went away."""
    if stream.refusal:
        stream.task.uncancel()
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, stream.refusal)


def _bearer(details: grpc.HandlerCallDetails) -> str:
    given = dict(details.invocation_metadata or ()).get("authorization", "")
    text = given.decode(errors="replace") if isinstance(given, bytes) else given
    return text.removeprefix("Bearer ")


def needed_scope(method: str) -> str:
    """The smallest scope that may call a method."""
    if method.startswith(READS):
        return "read"
    return "admin" if method in ADMINS else "run"


def _refuse(code: grpc.StatusCode, message: str) -> grpc.RpcMethodHandler[Any, Any]:
    async def abort(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code, message)

    return grpc.unary_unary_rpc_method_handler(abort)
