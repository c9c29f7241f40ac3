"""A stack whose callers have tokens of their own, and what strangers and people send to its services."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from runspine.rpc.token_file import TokenFile
from runspine.wire.v1 import artifacts_pb2 as artifacts
from runspine.wire.v1 import telemetry_pb2 as telemetry
from runspine.wire.v1 import trainer_pb2 as trainer
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceStub
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from tests.kit.stack import Shell
from tests.kit.waiting import until

Metadata = tuple[tuple[str, str], ...]


class CallerStack:
    """A stack in the background, with a hand on its tokens file."""

    def __init__(self, home: Path, **settings: str) -> None:
        home.mkdir(mode=0o700, parents=True)
        self.home = home
        self.shell = Shell(home, **settings)
        self.tokens = TokenFile(home / "tokens.json", mode=0o600)
        self._channels: list[grpc.Channel] = []

    def up(self, *options: str) -> None:
        self.shell("up", "--detach", *options)
        until(lambda: self.record["parts"]["dashboard"]["state"] == "ready", 180)
        self.trainer = TrainerServiceStub(self._channel("orchestrator"))
        self.telemetry = TelemetryServiceStub(self._channel("telemetry"))
        self.artifacts = ArtifactServiceStub(self._channel("artifacts"))

    def down(self) -> None:
        for channel in self._channels:
            channel.close()
        self.shell("down")

    @property
    def record(self) -> Any:
        return json.loads((self.home / "stack.json").read_text())

    @property
    def page(self) -> str:
        return f"http://{self.record['addresses']['dashboard']}"

    def pids(self) -> dict[str, int]:
        return {name: part["pid"] for name, part in self.record["parts"].items()}

    def _channel(self, service: str) -> grpc.Channel:
        channel = grpc.insecure_channel(self.record["addresses"][service])
        self._channels.append(channel)
        return channel

    def reads(self, auth: Metadata) -> dict[str, grpc.StatusCode]:
        """How each service answers a call that only reads."""
        calls: dict[str, tuple[Any, Any]] = {
            "orchestrator": (self.trainer.List, trainer.ListRequest()),
            "telemetry": (self.telemetry.ListSeries, telemetry.ListSeriesRequest(run_id="none")),
            "artifacts": (self.artifacts.GetUsage, artifacts.GetUsageRequest()),
        }
        return {name: code_of(method, request, auth) for name, (method, request) in calls.items()}


def bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def code_of(method: Any, request: Any, auth: Metadata) -> grpc.StatusCode:
    try:
        method(request, metadata=auth, timeout=30)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@contextlib.contextmanager
def timed() -> Iterator[list[float]]:
    """The seconds that the body took, in the list."""
    took: list[float] = []
    started = time.monotonic()
    yield took
    took.append(time.monotonic() - started)
