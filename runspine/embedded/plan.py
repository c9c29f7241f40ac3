"""The table of parts: which processes make up a stack, in the order they start."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import site
import socket
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import runspine
from runspine.embedded.credentials import Credentials
from runspine.embedded.home import Home
from runspine.embedded.nats import nats_part
from runspine.embedded.part import Part, healthy_at
from runspine.embedded.ports import LOOPBACK, PortBook
from runspine.embedded.s3 import BUCKET, s3_part

NEEDED = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
# Settings of services may be given to `runspine up`; these belong to clients.
FOR_CLIENTS = (
    "RUNSPINE_HOME",
    "RUNSPINE_ADDRESS",
    "RUNSPINE_TELEMETRY_ADDRESS",
    "RUNSPINE_ARTIFACTS_ADDRESS",
    "RUNSPINE_TOKEN",
    "RUNSPINE_TLS",
    "RUNSPINE_TLS_CA",
    "RUNSPINE_PASS",
)
FOR_TRAINERS = ("WANDB_", "CUDA_")
GRPC_SERVICES = ("orchestrator", "telemetry", "artifacts")
NICENESS = 5
PARTS = ("nats", "s3", *GRPC_SERVICES, "worker", "dashboard")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for."""

    workers: int = 1
    slots: int | None = None
    pools: tuple[str, ...] = ("default",)
    only: Collection[str] | None = None
    use_default_ports: bool = True
    # RUNSPINE_* variables for every service, beside those of this process's environment.
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = set(self.only or ()) - set(PARTS)
        if unknown:
            raise ValueError(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")

    def wants(self, name: str) -> bool:
        return self.only is None or name in self.only


def plan(home: Home, wish: Wish, credentials: Credentials, ports: PortBook) -> list[Part]:
    """Every part that is wished for and installed, in the order of starting."""
    base = {**needed_environment(os.environ), **wish.settings}
    parts: list[Part] = []
    if wish.wants("nats"):
        parts.append(nats_part(home, credentials, ports, base))
    if wish.wants("s3"):
        parts.append(s3_part(home, credentials, ports, base))
    for name in GRPC_SERVICES:
        if wish.wants(name) and is_installed(name):
            parts.append(_grpc_service(name, home, credentials, ports, base))
    if wish.wants("worker") and is_installed("worker"):
        parts.extend(_worker(n, home, wish, credentials, ports, base) for n in range(1, wish.workers + 1))
    if wish.wants("dashboard") and is_installed("dashboard") and importlib.util.find_spec("nicegui"):
        parts.append(_dashboard(home, credentials, ports, base))
    return parts


def is_installed(service: str) -> bool:
    try:
        return importlib.util.find_spec(f"services.{service}.__main__") is not None
    except ModuleNotFoundError:
        return False


def _dashboard(home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]) -> Part:
    """The web page. It speaks to the services as a client does, to NATS for live frames, and never to S3."""
    address = f"{LOOPBACK}:{ports.choose('dashboard')}"
    metrics = f"{LOOPBACK}:{ports.choose('dashboard-metrics')}"
    health = f"http://{metrics}/healthz"
    own = {
        "RUNSPINE_HTTP_ADDRESS": address,
        "RUNSPINE_ADDRESS": f"{LOOPBACK}:{ports.choose('orchestrator')}",
        "RUNSPINE_TELEMETRY_ADDRESS": f"{LOOPBACK}:{ports.choose('telemetry')}",
        "RUNSPINE_ARTIFACTS_ADDRESS": f"{LOOPBACK}:{ports.choose('artifacts')}",
        "RUNSPINE_TELEMETRY_METRICS": f"{LOOPBACK}:{ports.choose('telemetry-metrics')}",
        "RUNSPINE_NATS_URL": f"nats://{LOOPBACK}:{ports.choose('nats')}",
        "RUNSPINE_NATS_USER": "dashboard",
        "RUNSPINE_NATS_PASSWORD": credentials.nats["dashboard"],
        "RUNSPINE_TOKEN": credentials.page_token,
        "RUNSPINE_TOKENS_FILE": str(home.tokens_file),
        "RUNSPINE_DASHBOARD_DIR": str(home.dashboard),
        "RUNSPINE_METRICS_ADDRESS": metrics,
        "RUNSPINE_LOG_FORMAT": "json",
    }
    return Part(
        name="dashboard",
        command=[sys.executable, "-P", "-m", "services.dashboard"],
        variables={**base, **own},
        # Its health is told before its door is open.
        ready=healthy_at(f"http://{address}/login"),
        address=address,
        metrics=metrics,
        health=health,
        ports=("dashboard", "dashboard-metrics"),
        # Nobody waits for a page: runs can be submitted without it.
        awaited=False,
        # Whoever trains comes first: pages get slower before trainers do.
        niceness=NICENESS,
    )


def _grpc_service(
    name: str, home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]
) -> Part:
    address = f"{LOOPBACK}:{ports.choose(name)}"
    own = {"RUNSPINE_GRPC_ADDRESS": address, "RUNSPINE_TOKENS_FILE": str(home.tokens_file)}
    return _service(name, name, home, credentials, ports, {**base, **own}, address=address)


def _worker(
    number: int, home: Home, wish: Wish, credentials: Credentials, ports: PortBook, base: dict[str, str]
) -> Part:
    worker_id = f"{host_token()}-{number}"
    own = {
        "RUNSPINE_WORKER_ID": worker_id,
        "RUNSPINE_WORKER_DIR": str(home.worker / worker_id),
        "RUNSPINE_WORKER_SLOTS": str(wish.slots or max(1, cores() // wish.workers)),
        "RUNSPINE_WORKER_POOLS": ",".join(wish.pools),
        # When the supervisor is killed, NATS is gone with it and the worker has nobody to wait for;
        # what it could not say lies in its journal.
        "RUNSPINE_DRAIN_SECONDS": "5",
        **trainer_environment(os.environ),
    }
    name = "worker" if wish.workers == 1 else f"worker-{number}"
    return _service(name, "worker", home, credentials, ports, {**base, **own}, grace=45.0)


def _service(
    name: str,
    service: str,
    home: Home,
    credentials: Credentials,
    ports: PortBook,
    variables: dict[str, str],
    *,
    address: str = "",
    grace: float = 10.0,
) -> Part:
    metrics = f"{LOOPBACK}:{ports.choose(f'{name}-metrics')}"
    health = f"http://{metrics}/healthz"
    return Part(
        name=name,
        # -P: a file of the user's directory must not stand in for a module of ours.
        command=[sys.executable, "-P", "-m", f"services.{service}"],
        variables={**variables, **_shared(service, home, credentials, ports, metrics)},
        ready=healthy_at(health),
        address=address,
        metrics=metrics,
        health=health,
        ports=(*((name,) if address else ()), f"{name}-metrics"),
        grace=grace,
        # A worker has trainers to stop; the others lose nothing by being killed.
        death_signal=signal.SIGTERM if service == "worker" else signal.SIGKILL,
    )


def _shared(
    service: str, home: Home, credentials: Credentials, ports: PortBook, metrics: str
) -> dict[str, str]:
    return {
        "RUNSPINE_NATS_URL": f"nats://{LOOPBACK}:{ports.choose('nats')}",
        "RUNSPINE_NATS_USER": service,
        "RUNSPINE_NATS_PASSWORD": credentials.nats[service],
        "RUNSPINE_S3_ENDPOINT": f"{LOOPBACK}:{ports.choose('s3')}",
        "RUNSPINE_S3_ACCESS_KEY": credentials.s3_keys[service].access,
        "RUNSPINE_S3_SECRET_KEY": credentials.s3_keys[service].secret,
        "RUNSPINE_S3_BUCKET": BUCKET,
        "RUNSPINE_S3_SECURE": "false",
        "RUNSPINE_S3_SYNC_DIR": str(home.s3),
        "RUNSPINE_METRICS_ADDRESS": metrics,
        "RUNSPINE_LOG_FORMAT": "json",
    }


def needed_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What any process needs and the settings of services; nothing else of the user's environment."""
    kept = {name: given[name] for name in NEEDED if name in given}
    kept |= {k: v for k, v in given.items() if k.startswith("RUNSPINE_") and k not in FOR_CLIENTS}
    path = [given["PYTHONPATH"]] if given.get("PYTHONPATH") else []
    if (root := source_root()) is not None:
        path.insert(0, str(root))
    return {**kept, **({"PYTHONPATH": os.pathsep.join(path)} if path else {})}


def trainer_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What a worker gets beyond that, to hand on: W&B, CUDA and the names in RUNSPINE_PASS."""
    named = {name.strip() for name in given.get("RUNSPINE_PASS", "").split(",")}
    return {k: v for k, v in given.items() if k in named or k.startswith(FOR_TRAINERS)}


def source_root() -> Path | None:
    """The checkout this runs from; None when installed."""
    root = Path(runspine.__file__).parents[1]
    return None if str(root) in (*site.getsitepackages(), site.getusersitepackages()) else root


def host_token() -> str:
    """The host name as part of a subject."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:48] or "host"


def cores() -> int:
    return len(os.sched_getaffinity(0))
