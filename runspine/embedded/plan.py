"""The parts of a stack in the order in which they start."""

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
from runspine.domain.defaults import DEFAULT_POOL
from runspine.embedded.credentials import Credentials
from runspine.embedded.home import Home
from runspine.embedded.nats import nats_part
from runspine.embedded.part import StackPart, healthy_at
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
    "RUNSPINE_LOG_ROOT_KEY",
    "RUNSPINE_TLS",
    "RUNSPINE_TLS_CA",
    "RUNSPINE_PASS",
)
FOR_TRAINERS = ("WANDB_", "CUDA_", "HF_TOKEN")
GRPC_SERVICES = ("orchestrator", "telemetry", "artifacts")
NICENESS = 5
PARTS = ("nats", "s3", *GRPC_SERVICES, "worker", "notices", "dashboard")


@dataclass(frozen=True, slots=True)
class StackOptions:
    """Options of `runspine up`."""

    workers: int = 1
    slots: int | None = None
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    only: Collection[str] | None = None
    use_default_ports: bool = True
    # RUNSPINE_* variables for every service, in addition to those of this process.
    settings: Mapping[str, str] = field(default_factory=dict)
    # The process that restarts the supervisor when it was killed; 0 in the foreground.
    watchdog: int = 0
    # Where machines that join reach the stack; nowhere when empty.
    listen: str = ""

    def __post_init__(self) -> None:
        unknown = set(self.only or ()) - set(PARTS)
        if unknown:
            raise ValueError(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")

    def wants(self, name: str) -> bool:
        return self.only is None or name in self.only


def plan(home: Home, options: StackOptions, credentials: Credentials, ports: PortBook) -> list[StackPart]:
    """Every part that is selected and installed, in the order of starting."""
    base = {**needed_environment(os.environ), **options.settings}
    parts: list[StackPart] = []
    if options.wants("nats"):
        parts.append(nats_part(home, credentials, ports, base))
    if options.wants("s3"):
        parts.append(s3_part(home, credentials, ports, base))
    for name in GRPC_SERVICES:
        if options.wants(name) and is_installed(name):
            parts.append(_grpc_service(name, home, credentials, ports, base))
    if options.wants("worker") and is_installed("worker"):
        parts.extend(
            _worker(n, home, options, credentials, ports, base) for n in range(1, options.workers + 1)
        )
    if options.listen:
        parts.append(_gateway(home, options.listen, ports, base))
    if options.wants("notices") and base.get("RUNSPINE_NOTICES_FILE") and is_installed("notices"):
        parts.append(_notices(home, credentials, ports, base))
    if options.wants("dashboard") and is_installed("dashboard") and importlib.util.find_spec("nicegui"):
        parts.append(_dashboard(home, credentials, ports, base))
    return parts


def _gateway(home: Home, address: str, ports: PortBook, base: dict[str, str]) -> StackPart:
    """The one listener for other machines: TLS, with an authority of its own."""
    metrics = f"{LOOPBACK}:{ports.choose('gateway-metrics')}"
    health = f"http://{metrics}/healthz"
    own = {
        "RUNSPINE_NATS_URL": f"nats://{LOOPBACK}:{ports.choose('nats')}",
        "RUNSPINE_S3_ENDPOINT": f"{LOOPBACK}:{ports.choose('s3')}",
        "RUNSPINE_METRICS_ADDRESS": metrics,
        "RUNSPINE_LOG_FORMAT": "json",
    }
    return StackPart(
        name="gateway",
        command=[sys.executable, "-P", "-m", "runspine.hosts.gateway", str(home.path), address],
        variables={**base, **own},
        ready=healthy_at(health),
        address=address,
        metrics=metrics,
        health=health,
        ports=("gateway-metrics",),
    )


def is_installed(service: str) -> bool:
    """Whether the code of a service is installed."""
    try:
        return importlib.util.find_spec(f"runspine.services.{service}.__main__") is not None
    except ModuleNotFoundError:
        return False


def _dashboard(home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]) -> StackPart:
    """The dashboard. It is a client of the services and receives live frames from NATS; it never uses S3."""
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
    return StackPart(
        name="dashboard",
        command=[sys.executable, "-P", "-m", "runspine.services.dashboard"],
        variables={**base, **own},
        # Its /healthz replies before it serves pages.
        ready=healthy_at(f"http://{address}/login"),
        address=address,
        metrics=metrics,
        health=health,
        ports=("dashboard", "dashboard-metrics"),
        # Runs can be submitted without it.
        awaited=False,
        # Trainers come first: under load, pages get slower before trainers do.
        niceness=NICENESS,
    )


def _notices(home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]) -> StackPart:
    """The notices service, where a file of channels is named. It is a client of two services, without S3."""
    metrics = f"{LOOPBACK}:{ports.choose('notices-metrics')}"
    own = {
        "RUNSPINE_NOTICES_FILE": str(Path(base["RUNSPINE_NOTICES_FILE"]).absolute()),
        "RUNSPINE_ADDRESS": f"{LOOPBACK}:{ports.choose('orchestrator')}",
        "RUNSPINE_TELEMETRY_ADDRESS": f"{LOOPBACK}:{ports.choose('telemetry')}",
        "RUNSPINE_NATS_URL": f"nats://{LOOPBACK}:{ports.choose('nats')}",
        "RUNSPINE_NATS_USER": "notices",
        "RUNSPINE_NATS_PASSWORD": credentials.nats["notices"],
        "RUNSPINE_LOG_ROOT": credentials.log_root,
        "RUNSPINE_SIGNING_KEY": credentials.signing["notices"],
        "RUNSPINE_TOKEN": credentials.notices_token,
        "RUNSPINE_METRICS_ADDRESS": metrics,
        "RUNSPINE_LOG_FORMAT": "json",
    }
    health = f"http://{metrics}/healthz"
    return StackPart(
        name="notices",
        command=[sys.executable, "-P", "-m", "runspine.services.notices"],
        variables={**base, **own},
        ready=healthy_at(health),
        metrics=metrics,
        health=health,
        ports=("notices-metrics",),
        niceness=NICENESS,
    )


def _grpc_service(
    name: str, home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]
) -> StackPart:
    address = f"{LOOPBACK}:{ports.choose(name)}"
    own = {"RUNSPINE_GRPC_ADDRESS": address, "RUNSPINE_TOKENS_FILE": str(home.tokens_file)}
    return _service(name, name, home, credentials, ports, {**base, **own}, address=address)


def _worker(
    number: int,
    home: Home,
    options: StackOptions,
    credentials: Credentials,
    ports: PortBook,
    base: dict[str, str],
) -> StackPart:
    worker_id = f"{host_token()}-{number}"
    own = {
        "RUNSPINE_WORKER_ID": worker_id,
        "RUNSPINE_WORKER_DIR": str(home.worker / worker_id),
        "RUNSPINE_WORKER_SLOTS": str(options.slots or max(1, cores() // options.workers)),
        "RUNSPINE_WORKER_POOLS": ",".join(options.pools),
        "RUNSPINE_SANDBOX_HIDDEN": _hidden(home, os.environ),
        **_offered_secrets(os.environ),
        # When the supervisor is killed, NATS ends with it and the worker would wait in vain; facts that it
        # could not append are in its journal.
        "RUNSPINE_DRAIN_SECONDS": "5",
        **trainer_environment(os.environ),
    }
    name = "worker" if options.workers == 1 else f"worker-{number}"
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
) -> StackPart:
    metrics = f"{LOOPBACK}:{ports.choose(f'{name}-metrics')}"
    health = f"http://{metrics}/healthz"
    return StackPart(
        name=name,
        # -P: a file in the working directory must not shadow a module.
        command=[sys.executable, "-P", "-m", f"runspine.services.{service}"],
        variables={**variables, **_shared(service, home, credentials, ports, metrics)},
        ready=healthy_at(health),
        address=address,
        metrics=metrics,
        health=health,
        ports=(*((name,) if address else ()), f"{name}-metrics"),
        grace=grace,
        # A worker stops its trainers first; the others can be killed without loss.
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
        "RUNSPINE_LOG_ROOT": credentials.log_root,
        "RUNSPINE_SIGNING_KEY": credentials.signing.get(service, ""),
    }


def needed_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Variables that any process needs and the settings of services; nothing else of the environment."""
    kept = {name: given[name] for name in NEEDED if name in given}
    kept |= {k: v for k, v in given.items() if k.startswith("RUNSPINE_") and k not in FOR_CLIENTS}
    path = [given["PYTHONPATH"]] if given.get("PYTHONPATH") else []
    if (root := source_root()) is not None:
        path.insert(0, str(root))
    return {**kept, **({"PYTHONPATH": os.pathsep.join(path)} if path else {})}


def trainer_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Variables that a worker passes to trainers: of W&B, CUDA, the Hub, and named in RUNSPINE_PASS."""
    named = {name.strip() for name in given.get("RUNSPINE_PASS", "").split(",")}
    return {k: v for k, v in given.items() if k in named or k.startswith(FOR_TRAINERS)}


def _hidden(home: Home, given: Mapping[str, str]) -> str:
    """Paths that no trainer sees: the home, and those that the user names."""
    return ",".join(filter(None, (str(home.path), given.get("RUNSPINE_SANDBOX_HIDDEN", ""))))


def _offered_secrets(given: Mapping[str, str]) -> dict[str, str]:
    """What RUNSPINE_PASS names may be asked for by runs, in addition to the worker's own list."""
    if "RUNSPINE_WORKER_SECRETS" in given or not given.get("RUNSPINE_PASS"):
        return {}
    return {"RUNSPINE_WORKER_SECRETS": f"WANDB_*,HF_*,XMPP_PASSWORD,{given['RUNSPINE_PASS']}"}


def source_root() -> Path | None:
    """The root of the checkout; None when the package is installed."""
    root = Path(runspine.__file__).parents[1]
    return None if str(root) in (*site.getsitepackages(), site.getusersitepackages()) else root


def host_token() -> str:
    """The host name as a token of a subject."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:48] or "host"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
