"""Bearer tokens of gRPC calls and their scopes."""

from __future__ import annotations

import contextvars
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

SCOPES = ("read", "run", "admin")
READS = ("Get", "List", "Watch", "Validate", "Read", "Describe", "Stream", "Query", "Recent", "Search")
# Methods that remove artifacts, or set rules, of all users.
ADMINS = ("Prune", "UndoPrune", "SetRetention", "RemoveOrphans")
caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="")
# Of a stack without tokens anybody may do everything.
caller_scope: contextvars.ContextVar[str] = contextvars.ContextVar("caller_scope", default="admin")


@dataclass(frozen=True, slots=True)
class Token:
    """A token by its digest, with its name and scope."""

    name: str
    sha256: str
    scope: str


class TokenAuth(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Refuses calls without a known token, and calls that need a larger scope than the token has."""

    def __init__(self, tokens: list[Token] | None) -> None:
        self._tokens = tokens

    @classmethod
    def from_file(cls, path: Path | None) -> TokenAuth:
        """Tokens from a JSON list of {name, sha256, scope}; None means that anybody may call."""
        if path is None:
            return cls(None)
        try:
            tokens = [Token(**entry) for entry in json.loads(path.read_text())]
        except (OSError, ValueError, TypeError) as error:
            raise SystemExit(f"RUNSPINE_TOKENS_FILE {path}: {error}") from error
        for token in tokens:
            if token.scope not in SCOPES:
                raise SystemExit(f"RUNSPINE_TOKENS_FILE: scope {token.scope!r} is not one of {SCOPES}")
        return cls(tokens)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        service, _, method = handler_call_details.method.lstrip("/").partition("/")
        if self._tokens is None or service == "grpc.health.v1.Health":
            return await continuation(handler_call_details)
        token = self._find(dict(handler_call_details.invocation_metadata or ()).get("authorization", ""))
        if token is None:
            return _refuse(
                grpc.StatusCode.UNAUTHENTICATED,
                "a token is needed: set RUNSPINE_TOKEN, or RUNSPINE_HOME to the home of the stack",
            )
        needed = needed_scope(method) if service.startswith("runspine.") else "read"
        if SCOPES.index(token.scope) < SCOPES.index(needed):
            may = "only read" if token.scope == "read" else "run and read"
            return _refuse(
                grpc.StatusCode.PERMISSION_DENIED,
                f"token {token.name!r} may {may}; {method} needs the scope {needed!r}",
            )
        caller.set(token.name)
        caller_scope.set(token.scope)
        return await continuation(handler_call_details)

    def _find(self, authorization: str | bytes) -> Token | None:
        text = authorization.decode() if isinstance(authorization, bytes) else authorization
        given = hashlib.sha256(text.removeprefix("Bearer ").encode()).hexdigest()
        found = None
        for token in self._tokens or ():
            if hmac.compare_digest(token.sha256, given):
                found = token
        return found


def needed_scope(method: str) -> str:
    """The smallest scope that may call a method."""
    if method.startswith(READS):
        return "read"
    return "admin" if method in ADMINS else "run"


def _refuse(code: grpc.StatusCode, message: str) -> grpc.RpcMethodHandler[Any, Any]:
    async def abort(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code, message)

    return grpc.unary_unary_rpc_method_handler(abort)
