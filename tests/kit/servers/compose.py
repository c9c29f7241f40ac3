"""docker-compose.yml on an engine, looked at from outside and from inside."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from tests.kit.paths import ROOT
from tests.kit.servers.docker import Engine
from tests.kit.servers.nats import free_port

PORTS = ("ORCHESTRATOR", "TELEMETRY", "ARTIFACTS", "DASHBOARD", "GRAFANA")
FILES = ("docker-compose.yml", "deploy/compose/seaweedfs.yml")
# By tag: a stand-in for an image that cannot be pulled has no digest.
IMAGES = {"PROMETHEUS": "prom/prometheus:v3.5.0", "SEAWEEDFS": "chrislusf/seaweedfs:4.48"}


class Deployment:
    """docker-compose.yml in a folder of its own, as a lab would have it."""

    def __init__(self, docker: Engine, folder: Path) -> None:
        self.engine = docker
        self.folder = folder
        shutil.copy(ROOT / "docker-compose.yml", folder)
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        made = [sys.executable, "-m", "runspine", "secrets", "--directory", str(folder)]
        subprocess.run(made, check=True, cwd=ROOT, capture_output=True)
        self.ports = {name: free_port() for name in PORTS}
        with (folder / ".env").open("a") as file:
            file.write(f"COMPOSE_PROJECT_NAME=rstest{secrets.token_hex(3)}\nRUNSPINE_WORKER_SLOTS=1\n")
            file.writelines(f"RUNSPINE_{name}_PORT={port}\n" for name, port in self.ports.items())
            file.writelines(f"RUNSPINE_{name}_IMAGE={image}\n" for name, image in IMAGES.items())
        lines = [line.split("=", 1) for line in (folder / ".env").read_text().splitlines() if "=" in line]
        self.variables = {name: value for name, value in lines if not name.startswith("#")}

    def compose(self, *arguments: str, check: bool = True) -> str:
        files = [word for file in FILES for word in ("-f", file)]
        command = [*self.engine.compose_command, *files, *arguments]
        return self.engine.run(command, folder=self.folder, check=check)

    def containers(self) -> dict[str, str]:
        """Those that go on running: service and id."""
        found = {}
        for identity in self.compose("ps", "-q").split():
            label = '{{index .Config.Labels "com.docker.compose.service"}} {{.HostConfig.RestartPolicy.Name}}'
            service, policy = self.engine.docker("inspect", "-f", label, identity).split()
            if policy == "unless-stopped":
                found[service] = identity
        return found

    def unwell(self) -> dict[str, str]:
        troubles = {}
        for service, identity in self.containers().items():
            state = json.loads(self.engine.docker("inspect", "-f", "{{json .State}}", identity))
            health = state.get("Health", {}).get("Status", "healthy" if state["Running"] else "stopped")
            if not state["Running"] or health != "healthy":
                tail = self.engine.docker("logs", "--tail", "12", identity, check=False)
                troubles[service] = f"{state['Status']}, {health}\n{tail}"
        return troubles

    def until_well(self, seconds: float = 420.0) -> None:
        eventually(lambda: not self.unwell(), seconds, lambda: "\n".join(map(str, self.unwell().items())))

    def networks(self, service: str) -> dict[str, str]:
        """The service's networks by the names of the file, and its address on each."""
        shown = "{{json .NetworkSettings.Networks}}"
        found = json.loads(self.engine.docker("inspect", "-f", shown, self.containers()[service]))
        project = f"{self.variables['COMPOSE_PROJECT_NAME']}_"
        return {name.removeprefix(project): network["IPAddress"] for name, network in found.items()}

    def connect(self, service: str, host: str, port: int) -> str:
        """From inside the service's container: `connected`, or the reason why not."""
        identity = self.containers()[service]
        return _reason(self.engine.docker("exec", identity, "python", "-c", _tried(host, port), check=False))

    def connect_on(self, network: str, host: str, port: int) -> str:
        """The same from a container that is on this network alone."""
        name = f"{self.variables['COMPOSE_PROJECT_NAME']}_{network}"
        where = ["run", "--rm", "--network", name, "--entrypoint", "python", "runspine/service:dev"]
        return _reason(self.engine.docker(*where, "-c", _tried(host, port), check=False))

    def addresses(self) -> dict[str, str]:
        """For the command line, on the host."""
        names = ("RUNSPINE_ADDRESS", "RUNSPINE_TELEMETRY_ADDRESS", "RUNSPINE_ARTIFACTS_ADDRESS")
        return {name: f"127.0.0.1:{self.ports[port]}" for name, port in zip(names, PORTS, strict=False)}

    def client(self) -> Client:
        trainer, telemetry, artifacts = (f"127.0.0.1:{self.ports[name]}" for name in PORTS[:3])
        return Client(Endpoint(trainer, telemetry, artifacts, self.variables["RUNSPINE_TOKEN"], patience=120))

    def scraped(self) -> set[str]:
        """Services that Prometheus reads."""
        return {found["metric"]["service"] for found in self.prometheus("up == 1")}

    def prometheus(self, query: str) -> list[dict[str, Any]]:
        """Asked from inside: it has no port on the host."""
        url = f"http://127.0.0.1:9090/api/v1/query?query={quote(query)}"
        emitted = self.engine.docker(
            "exec", self.containers()["prometheus"], "wget", "-q", "-O", "-", url, check=False
        )
        try:
            found: list[dict[str, Any]] = json.loads(emitted)["data"]["result"]
        except ValueError:
            return []
        return found


def _tried(host: str, port: int) -> str:
    return f"import socket; socket.create_connection(({host!r}, {port}), 5); print('connected')"


def _reason(emitted: str) -> str:
    return emitted.strip().splitlines()[-1].rpartition("] ")[2].removeprefix("TimeoutError: ")


def eventually(
    so: Callable[[], bool], seconds: float, otherwise: Callable[[], str] = lambda: "in time"
) -> None:
    deadline = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(1.0)


@contextlib.contextmanager
def received(what: str) -> Iterator[None]:
    """Half an hour is long without a word."""
    began = time.monotonic()
    yield
    print(f"\n{what}: {time.monotonic() - began:.0f} s", end="", flush=True)
