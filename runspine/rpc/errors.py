"""Translation of exceptions to gRPC statuses, for every service."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from prometheus_client import Histogram

from runspine.domain.run import RunRefusedError
from runspine.errors import Violation
from runspine.eventlog import ConflictError, CorruptError, UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import BehindError
from runspine.storage.blobs import BlobsUnavailableError

CALLS = Histogram(
    "runspine_call_seconds",
    "Time of a gRPC call",
    ["method"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
Servicer = TypeVar("Servicer", bound=type)


class InvalidInputError(Exception):
    """Fields of the request are not valid."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(f"{v.field}: {v.message}" for v in violations))
        self.violations = violations


class NotFoundError(Exception):
    """The requested object does not exist."""


class AmbiguousError(Exception):
    """The reference matches more than one object."""


class LimitError(Exception):
    """The caller has as much as it may have; the message names limit, use and remedy."""


_CODES: dict[type[Exception], grpc.StatusCode] = {
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    AmbiguousError: grpc.StatusCode.FAILED_PRECONDITION,
    LimitError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    RunRefusedError: grpc.StatusCode.FAILED_PRECONDITION,
    ConflictError: grpc.StatusCode.ABORTED,
    UnknownOutcomeError: grpc.StatusCode.UNAVAILABLE,
    NatsUnreachableError: grpc.StatusCode.UNAVAILABLE,
    BlobsUnavailableError: grpc.StatusCode.UNAVAILABLE,
    BehindError: grpc.StatusCode.UNAVAILABLE,
    CorruptError: grpc.StatusCode.DATA_LOSS,
}


async def abort(context: Any, error: Exception) -> NoReturn:
    """End a call with the status of an error; an unknown error is raised."""
    if isinstance(error, InvalidInputError):
        await context.abort_with_status(rpc_status.to_status(_bad_request(error)))
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            await context.abort(code, str(error))
    raise error


def _bad_request(error: InvalidInputError) -> status_pb2.Status:
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
    """Class decorator: times every RPC method and translates known errors to statuses."""
    for name, method in list(vars(servicer).items()):
        if name.startswith("_"):
            continue
        if inspect.isasyncgenfunction(method):
            setattr(servicer, name, _stream(method))
        elif inspect.iscoroutinefunction(method):
            setattr(servicer, name, _unary(method))
    return servicer


_KNOWN: tuple[type[Exception], ...] = (InvalidInputError, *_CODES)


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
