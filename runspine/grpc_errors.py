"""Our errors as gRPC statuses, in one place for every service."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from prometheus_client import Histogram

from runspine.blobs import BlobsUnavailable
from runspine.log import Conflict, Corrupt, Unknown
from runspine.log.link import Unreachable
from runspine.run import Refused

CALLS = Histogram(
    "runspine_call_seconds",
    "Time of a gRPC call",
    ["method"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
Servicer = TypeVar("Servicer", bound=type)


class FieldError(Protocol):
    @property
    def field(self) -> str: ...
    @property
    def message(self) -> str: ...


class InvalidInput(Exception):
    """The request holds values that are not accepted."""

    def __init__(self, violations: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{v.field}: {v.message}" for v in violations))
        self.violations = violations


class NotFound(Exception):
    """There is no such thing."""


class Ambiguous(Exception):
    """More than one thing is meant."""


_CODES: dict[type[Exception], grpc.StatusCode] = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    Ambiguous: grpc.StatusCode.FAILED_PRECONDITION,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    Conflict: grpc.StatusCode.ABORTED,
    Unknown: grpc.StatusCode.UNAVAILABLE,
    Unreachable: grpc.StatusCode.UNAVAILABLE,
    BlobsUnavailable: grpc.StatusCode.UNAVAILABLE,
    Corrupt: grpc.StatusCode.DATA_LOSS,
}


async def abort(context: Any, error: Exception) -> NoReturn:
    if isinstance(error, InvalidInput):
        await context.abort_with_status(rpc_status.to_status(_bad_request(error)))
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            await context.abort(code, str(error))
    raise error


def _bad_request(error: InvalidInput) -> status_pb2.Status:
    detail = error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field=v.field, description=v.message)
            for v in error.violations
        ]
    )
    status = status_pb2.Status(code=code_pb2.INVALID_ARGUMENT, message=str(error)[:4000])
    status.details.add().Pack(detail)
    return status


def translate_errors(servicer: Servicer) -> Servicer:
    """Class decorator: every RPC method is timed and ends known errors with the right status."""
    for name, method in list(vars(servicer).items()):
        if name.startswith("_"):
            continue
        if inspect.isasyncgenfunction(method):
            setattr(servicer, name, _stream(method))
        elif inspect.iscoroutinefunction(method):
            setattr(servicer, name, _unary(method))
    return servicer


_KNOWN: tuple[type[Exception], ...] = (InvalidInput, *_CODES)


def _unary(method: Any) -> Any:
    @functools.wraps(method)
    async def call(self: Any, request: Any, context: Any) -> Any:
        try:
            with CALLS.labels(method.__name__).time():
                return await method(self, request, context)
        except _KNOWN as error:
            await abort(context, error)

    return call


def _stream(method: Any) -> Any:
    @functools.wraps(method)
    async def call(self: Any, request: Any, context: Any) -> Any:
        try:
            async for item in method(self, request, context):
                yield item
        except _KNOWN as error:
            await abort(context, error)

    return call
