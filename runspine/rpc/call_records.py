"""Records of gRPC calls for the audit trail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import grpc

from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import DONE, NOT_DONE, REFUSED, CallRecorded

REQUEST_ID, FORWARDED = "x-request-id", "x-forwarded-for"
# Fields that name what a call is about, the most exact first.
TARGETS = ("run_id", "reference", "digest", "alias", "name", "dataset", "worker_id", "scope", "subject")


class Audit(Protocol):
    """Where records of calls go."""

    def record(self, call: CallRecorded) -> None: ...


class CallRecords:
    """Makes a record of one call: of its refusal, or of its end."""

    def __init__(
        self, audit: Audit, details: grpc.HandlerCallDetails, caller: str = "", scope: str = ""
    ) -> None:
        self._audit = audit
        metadata = {key: _text(value) for key, value in details.invocation_metadata or ()}
        given = metadata.get(REQUEST_ID, "")
        self._call = CallRecorded(
            request_id=given if given.isprintable() and given else new_ulid(),
            method=details.method.rpartition("/")[2],
            caller=caller,
            scope=scope,
            forwarded=metadata.get(FORWARDED, ""),
        )

    def refused(self, context: Any, code: grpc.StatusCode, reason: str) -> None:
        self._end(context, REFUSED, code, reason)

    @contextlib.asynccontextmanager
    async def around(self, request: Any, context: Any) -> AsyncIterator[Callable[[Any], None]]:
        """Record the call when it ends, however it ends."""
        self._call.target = _target(request)

        def answered(response: Any) -> None:
            run = getattr(response, "run", None)
            self._call.target = (run.id if run is not None else "") or self._call.target

        try:
            yield answered
        except asyncio.CancelledError:
            self._end(context, NOT_DONE, grpc.StatusCode.CANCELLED, "the caller went away")
            raise
        except Exception as error:
            code = _status(context.code())
            limited = code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAUTHENTICATED)
            reason = _text(context.details() or "") or type(error).__name__
            self._end(context, REFUSED if limited else NOT_DONE, code, reason)
            raise
        else:
            self._end(context, DONE, grpc.StatusCode.OK, "")

    def _end(self, context: Any, outcome: int, code: grpc.StatusCode, reason: str) -> None:
        self._call.peer = peer_host(context.peer())
        self._call.outcome = outcome  # type: ignore[assignment] # an enum is an int
        self._call.code = code.name
        self._call.reason = reason
        self._audit.record(self._call)


def _status(code: Any) -> grpc.StatusCode:
    """The status of a call that has ended: gRPC gives its number, and 0 for an unknown error."""
    found = {status.value[0]: status for status in grpc.StatusCode if status is not grpc.StatusCode.OK}
    return code if isinstance(code, grpc.StatusCode) else found.get(code, grpc.StatusCode.UNKNOWN)


def peer_host(peer: str) -> str:
    """The address of gRPC's `ipv4:host:port`, `ipv6:%5Bhost%5D:port`, without the port."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")


def _target(request: Any) -> str:
    found = (getattr(request, name, "") for name in TARGETS)
    return next((text for text in found if isinstance(text, str) and text), "")


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
