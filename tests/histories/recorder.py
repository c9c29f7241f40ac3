"""Wraps the stub of a real client: each call that it makes, also each retry, becomes a line of a history."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import grpc

from runspine.client import Client
from runspine.wire.v1 import trainer_pb2 as wire
from tests.histories.calls import Call, Operation, Outcome, Recording, Seen

OPERATIONS: dict[str, Operation] = {
    "Submit": "submit",
    "Cancel": "cancel",
    "SetPriority": "priority",
    "SetLabels": "labels",
    "Get": "get",
    "List": "list",
    "Watch": "watch",
}
# An error that is not here leaves open whether the call took effect.
OUTCOMES: dict[grpc.StatusCode, Outcome] = {
    grpc.StatusCode.FAILED_PRECONDITION: "refused",
    grpc.StatusCode.NOT_FOUND: "missing",
    grpc.StatusCode.INVALID_ARGUMENT: "failed",
    grpc.StatusCode.UNAUTHENTICATED: "failed",
    grpc.StatusCode.PERMISSION_DENIED: "failed",
}


def record(client: Client, recording: Recording, session: str) -> Client:
    """The same client, recorded from now on. With each of several orchestrators it has another session."""
    siblings = client._trainer
    siblings.stubs = [
        RecordedStub(stub, recording, f"{session}@{address}" if len(siblings) > 1 else session)
        for stub, address in zip(siblings.stubs, siblings.addresses, strict=True)
    ]
    return client


class RecordedStub:
    """A stub of TrainerService, synchronous or of asyncio. Calls name runs by their whole ids."""

    def __init__(
        self, stub: Any, recording: Recording, session: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stub = stub
        self._recording = recording
        self._session = session
        self._clock = clock
        self._watches = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stub, name)
        operation = OPERATIONS.get(name)
        if operation is None:
            return method
        if operation == "watch":
            return lambda request, **more: self._watch(method(request, **more))
        return lambda request, **more: self._call(operation, method, request, more)

    def _call(self, operation: Operation, method: Any, request: Any, more: dict[str, Any]) -> Any:
        start = self._clock()
        try:
            answer = method(request, **more)
        except grpc.RpcError as error:
            self._failed(operation, request, start, error)
            raise
        if inspect.isawaitable(answer):
            return self._awaited(operation, answer, request, start)
        self._answered(operation, request, start, answer)
        return answer

    async def _awaited(self, operation: Operation, answer: Any, request: Any, start: float) -> Any:
        try:
            found = await answer
        except grpc.RpcError as error:
            self._failed(operation, request, start, error)
            raise
        except BaseException:
            self._add(operation, request, start, "unknown")
            raise
        self._answered(operation, request, start, found)
        return found

    def _watch(self, stream: Any) -> Any:
        """Each message is a read. Streams are sessions of their own: one may be behind another."""
        self._watches += 1
        session = f"{self._session}/watch-{self._watches}"
        return Watched(stream, partial(self._watched, session), self._clock)

    def _watched(self, session: str, message: wire.WatchResponse, start: float, end: float) -> None:
        if message.facts:
            seen = {message.run_id: Seen.of(message.run)}
            self._recording.add(Call(session, "watch", start, end, "ok", message.run_id, seen=seen))

    def _failed(self, operation: Operation, request: Any, start: float, error: grpc.RpcError) -> None:
        self._add(operation, request, start, OUTCOMES.get(error.code(), "unknown"))

    def _answered(self, operation: Operation, request: Any, start: float, answer: Any) -> None:
        runs = [each.run for each in answer.runs] if operation == "list" else [answer.run]
        seen = {run.id: Seen.of(run) for run in runs}
        self._add(operation, request, start, "ok", seen, operation == "submit" and answer.created)

    def _add(
        self,
        operation: Operation,
        request: Any,
        start: float,
        outcome: Outcome,
        seen: Any = (),
        created: bool = False,
    ) -> None:
        run_id, key, given = "", "", {}
        match operation:
            case "submit":
                key, spec = request.idempotency_key, request.spec
                given = {"labels": dict(spec.labels)} | (
                    {"priority": spec.priority} if spec.HasField("priority") else {}
                )
            case "list":
                pass
            case _:
                run_id = request.run_id
        if operation in ("priority", "labels"):
            value = getattr(request, operation)
            given = {operation: value if operation == "priority" else dict(value)}
        end = self._clock()
        self._recording.add(
            Call(self._session, operation, start, end, outcome, run_id, key, given, dict(seen), created)
        )


class Watched:
    """A stream of messages, for `for` and `async for`; everything else is the stream's own."""

    def __init__(
        self, stream: Any, add: Callable[[Any, float, float], None], clock: Callable[[], float]
    ) -> None:
        self._stream = stream
        self._add = add
        self._clock = clock
        self._last = clock()

    def __iter__(self) -> Iterator[Any]:
        for message in self._stream:
            self._received(message)
            yield message

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for message in self._stream:
            self._received(message)
            yield message

    def _received(self, message: Any) -> None:
        # Messages of one stream follow each other, also where the clock stands still.
        start = math.nextafter(self._last, math.inf)
        self._last = max(start, self._clock())
        self._add(message, start, self._last)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
