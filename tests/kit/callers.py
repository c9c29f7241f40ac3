"""Services whose callers have tokens of their own, and what strangers and people send to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
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
from tests.kit.orchestrator import Orchestrator
from tests.kit.paths import ROOT
from tests.kit.servers.nats import NatsServer, free_port
from tests.kit.stack import Shell
from tests.kit.waiting import until

Metadata = tuple[tuple[str, str], ...]
ADMIN = "the-admins-token"
START_SECONDS = 280.0


class CallerStack:
    """A whole stack in the background, with a hand on its tokens file."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True)
        self.home = home
        self.shell = Shell(home)
        self.tokens = TokenFile(home / "tokens.json", mode=0o600)
        self._channels: list[grpc.Channel] = []

    def up(self) -> None:
        self.shell("up", "--detach")
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


class GuardedServices:
    """An orchestrator and a dashboard on a nats-server, with one tokens file: two processes, no stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens = TokenFile(folder / "tokens.json")
        self.tokens.add("admin", ADMIN, "admin")
        self.nats = NatsServer(folder)
        own = {"RUNSPINE_TOKENS_FILE": str(self.tokens.path)}
        self.orchestrator = Orchestrator(self.nats, folder, own)
        self.page = f"http://127.0.0.1:{free_port()}"
        self.dashboard: subprocess.Popen[bytes] | None = None
        self.shell = Shell(folder, RUNSPINE_ADDRESS=self.orchestrator.address, RUNSPINE_TOKEN=ADMIN)

    def start(self) -> None:
        self.nats.start()
        self.orchestrator.start()
        self.start_dashboard()
        self.trainer = self.orchestrator.stub(wait=START_SECONDS)
        until(lambda: self.allowed(ADMIN), START_SECONDS)

    def start_dashboard(self) -> None:
        settings = {
            "RUNSPINE_HTTP_ADDRESS": self.page.removeprefix("http://"),
            "RUNSPINE_ADDRESS": self.orchestrator.address,
            "RUNSPINE_NATS_URL": self.nats.url,
            "RUNSPINE_TOKENS_FILE": str(self.tokens.path),
            "RUNSPINE_TOKEN": ADMIN,
            "RUNSPINE_DASHBOARD_DIR": str(self.folder / "dashboard"),
        }
        with (self.folder / "dashboard.log").open("ab") as log:
            command = [sys.executable, "-m", "runspine.services.dashboard"]
            self.dashboard = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **settings}, stdout=log, stderr=log
            )
        until(self._page_answers, START_SECONDS, "the page answers")

    def kill_dashboard(self) -> None:
        assert self.dashboard
        self.dashboard.kill()
        self.dashboard.wait()

    def stop(self) -> None:
        if self.dashboard:
            self.dashboard.send_signal(signal.SIGTERM)
            self.dashboard.wait(60)
        self.orchestrator.stop()
        self.nats.stop()

    def allowed(self, token: str) -> bool:
        """Whether the orchestrator lets this token read."""
        return code_of(self.trainer.List, trainer.ListRequest(), bearer(token)) == grpc.StatusCode.OK

    def _page_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.page}/login", timeout=30) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def code_of(method: Any, request: Any, auth: Metadata) -> grpc.StatusCode:
    try:
        method(request, metadata=auth, timeout=60)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK
