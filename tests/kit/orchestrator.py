"""Real services as processes, with only what a test needs around them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import grpc

from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from tests.kit.forks.module_process import Process, start_module
from tests.kit.servers.nats import free_port


class HasUrl(Protocol):
    """A NATS server, or a cluster of them."""

    url: str


class Orchestrator:
    """One orchestrator process and a stub to call it."""

    def __init__(self, nats: HasUrl, directory: Path, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = directory / f"orchestrator-{self.port}.log"
        self._environment = {
            **os.environ,
            "RUNSPINE_NATS_URL": nats.url,
            "RUNSPINE_GRPC_ADDRESS": self.address,
            "RUNSPINE_LOG_FORMAT": "console",
            "RUNSPINE_IGNORE_SNAPSHOT": "true",
            **environment,
        }
        self.process: Process | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = start_module(
                "runspine.services.orchestrator", self._environment, stdout=log, stderr=log
            )

    def stub(self, *, wait: float = 90.0) -> TrainerServiceStub:
        """A fresh channel, ready to use."""
        channel = grpc.insecure_channel(self.address, options=[("grpc.max_send_message_length", 64 << 20)])
        try:
            grpc.channel_ready_future(channel).result(wait)
        except grpc.FutureTimeoutError:
            raise AssertionError(self.output()) from None
        return TrainerServiceStub(channel)

    def output(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


@contextmanager
def orchestrator(nats: HasUrl, directory: Path, **environment: str) -> Iterator[Orchestrator]:
    service = Orchestrator(nats, directory, environment)
    service.start()
    try:
        yield service
    finally:
        service.stop()
