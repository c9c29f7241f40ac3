"""A real orchestrator that is sent whatever bytes there are, under any of its methods."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from runspine.wire.v1 import trainer_pb2 as wire
from tests.kit.orchestrator import orchestrator
from tests.kit.servers.nats import NatsServer

METHODS = (
    "Submit", "Validate", "Cancel", "Get", "List", "Resubmit", "SetPriority", "SetLabels", "ListRunners",
    "ListWorkers", "DescribeLog",
)  # fmt: skip
# Codes that a caller may receive for its input.
ANSWERS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
}
# Bytes that are no message never reach us: gRPC itself reports them, as UNKNOWN.
NO_MESSAGE = "protobuf.message.DecodeError"


@contextmanager
def service_target() -> Iterator[Service]:
    """To be started before it is used."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Service(Path(scratch))
        try:
            yield target
        finally:
            target.stop()


class Service:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nats: NatsServer | None = None
        self._open: Any = None
        self._channel: Any = None

    def __call__(self, data: bytes) -> None:
        for name in METHODS:
            body = self._wrapped(name, data)
            method = self._channel.unary_unary(f"/runspine.wire.v1.TrainerService/{name}")
            try:
                method(body, timeout=20)
            except grpc.RpcError as error:
                if NO_MESSAGE not in (error.details() or "") and error.code() not in ANSWERS:
                    raise AssertionError(f"{name}: {error.code()}: {error.details()}") from error

    def _wrapped(self, name: str, data: bytes) -> bytes:
        """As it is, and for those that take a spec as their spec."""
        if name not in ("Submit", "Validate"):
            return data
        size, head = len(data), bytearray(b"\x0a")
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        return bytes([*head, size]) + data

    def start(self) -> None:
        (self._folder / "nats").mkdir()
        self._nats = NatsServer(self._folder / "nats")
        self._nats.start()
        self._open = orchestrator(self._nats, self._folder)
        service = self._open.__enter__()
        service.stub().Submit(
            wire.SubmitRequest(spec={"runner": "script", "command": ["true"], "name": "a"})  # type: ignore[arg-type]
        )
        self._channel = grpc.insecure_channel(service.address)

    def stop(self) -> None:
        if self._nats is not None:
            self._channel.close()
            self._open.__exit__(None, None, None)
            self._nats.stop()
