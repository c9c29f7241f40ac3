"""Checks of this machine: what a stack needs to run on it."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from runspine.doctor import Check
from runspine.doctor.nats_seeds import nats_seeds
from runspine.embedded.binaries import BinaryMissingError, binary_version, find_binary
from runspine.embedded.home import Home, HomeUnusableError
from runspine.embedded.nats_config import MIN_SERVER
from runspine.embedded.ports import DEFAULTS, LOOPBACK, is_free
from runspine.embedded.record import running_record
from runspine.instrument.corl import readiness as corl
from runspine.instrument.readiness import readiness

MIN_PYTHON = (3, 11)
MIN_WEED = (4, 48)
GIB = 1 << 30
MIN_OPEN_FILES = 4096

SERVICE_PACKAGES = ("nats", "minio", "pydantic_settings", "prometheus_client", "structlog", "grpc_health")
RUNNER_PACKAGES = {
    "builtin": ("torch", "gymnasium"),
    "sb3": ("stable_baselines3", "gymnasium"),
    "spade_bdi": ("spade_bdi",),
    "corl": ("torch", "gymnasium", "h5py", "minari"),
}


def examine(home: Home) -> list[Check]:
    """All checks of this machine."""
    return [
        _python(),
        _system(),
        _packages(),
        _binary("nats-server", MIN_SERVER),
        _binary("weed", MIN_WEED),
        _home(home),
        _disk(home),
        _loopback(),
        *nats_seeds(os.environ.get("RUNSPINE_NATS_URL", "")),
        _ports(home),
        _files(),
        _cgroup(),
        _sandbox(),
        _gpu(),
        *_runners(),
    ]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < MIN_PYTHON:
        return Check("python", "fail", version, "use Python 3.11 or newer")
    return Check("python", "ok", version)


def _system() -> Check:
    if sys.platform != "linux":
        return Check("system", "fail", sys.platform, "the stack needs Linux: processes are tied by prctl")
    return Check("system", "ok", f"Linux {os.uname().release}")


def _packages() -> Check:
    missing = [name for name in SERVICE_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return Check(
            "packages", "fail", f"not installed: {', '.join(missing)}", "pip install 'runspine[stack]'"
        )
    return Check("packages", "ok", "all packages of the services are installed")


def _binary(name: str, oldest: tuple[int, ...]) -> Check:
    wanted = ".".join(map(str, oldest))
    try:
        path = find_binary(name)
    except BinaryMissingError as error:
        return Check(name, "fail", "not installed", str(error).partition(": ")[2])
    version = binary_version(path)
    found = ".".join(map(str, version)) or "unknown version"
    if version < oldest:
        return Check(name, "fail", f"{found} at {path}", f"use {wanted} or newer")
    return Check(name, "ok", f"{found} at {path}")


def _home(home: Home) -> Check:
    if not home.path.exists():
        parent = next(parent for parent in home.path.parents if parent.exists())
        if not os.access(parent, os.W_OK):
            return Check("home", "fail", f"{parent} cannot be written", "name another in RUNSPINE_HOME")
        return Check("home", "ok", f"{home.path} will be made")
    try:
        home.check()
    except HomeUnusableError as error:
        return Check("home", "fail", str(error))
    except OSError as error:
        return Check("home", "fail", f"{home.path}: {error.strerror}", "name another in RUNSPINE_HOME")
    return Check("home", "ok", f"{home.path} is private and can be written")


def _disk(home: Home) -> Check:
    place = next(path for path in (home.path, *home.path.parents) if path.exists())
    free = shutil.disk_usage(place).free
    summary = f"{free / GIB:.1f} GiB free at {place}"
    if free < GIB:
        return Check("disk", "fail", summary, "free at least 1 GiB: a full disk stops the log")
    if free < 10 * GIB:
        return Check("disk", "warn", summary, "use at least 10 GiB: telemetry alone may take 20")
    return Check("disk", "ok", summary)


def _loopback() -> Check:
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            socket.create_connection(server.getsockname(), timeout=2).close()
    except OSError as error:
        return Check(
            "loopback", "fail", str(error), "bring up the interface lo; the services connect through it"
        )
    return Check("loopback", "ok", f"{LOOPBACK} answers")


def _ports(home: Home) -> Check:
    if running_record(home) is not None:
        return Check("ports", "ok", "in use by the stack of this home")
    taken = [f"{name} {port}" for name, port in DEFAULTS.items() if not is_free(port)]
    if taken:
        summary = f"taken by another program: {', '.join(taken)}"
        return Check("ports", "warn", summary, "nothing: free ones are chosen and remembered in ports.json")
    return Check("ports", "ok", f"all {len(DEFAULTS)} usual ones are free")


def _files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MIN_OPEN_FILES:
        return Check("open files", "warn", f"at most {soft}", f"ulimit -n {min(max(hard, soft), 65536)}")
    return Check("open files", "ok", f"at most {soft}")


def _cgroup() -> Check:
    root = Path("/sys/fs/cgroup")
    if not (root / "cgroup.controllers").exists():
        return Check("cgroup", "note", "no cgroup v2; runs are limited by other means")
    own = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2].lstrip("/")
    if os.access(root / own, os.W_OK) and os.access(root / own / "cgroup.procs", os.W_OK):
        return Check("cgroup", "note", "v2, can be written: runs can be limited and ended as a whole")
    return Check("cgroup", "note", "v2, cannot be written; runs are limited by other means")


def _sandbox() -> Check:
    name = "sandbox"
    unshared = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc")
    # CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID
    unshare = "import ctypes; exit(ctypes.CDLL(None).unshare(0x30020000) != 0)"
    namespaces = [sys.executable, "-I", "-c", unshare]
    if shutil.which("bwrap") is not None and _works(["bwrap", *unshared, "true"]):
        return Check(name, "note", "bubblewrap works: trainers are sandboxed")
    if _works(namespaces):
        return Check(name, "note", "user namespaces work: trainers are sandboxed")
    why = "no user namespaces: trainers share the worker's view of this machine"
    return Check(name, "note", f"{why}; RUNSPINE_WORKER_SANDBOX=require refuses to start such a worker")


def _works(command: list[str]) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True, timeout=10).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _gpu() -> Check:
    cards = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    if cards:
        return Check("gpu", "note", f"{len(cards)} NVIDIA: {', '.join(cards)}")
    return Check("gpu", "note", "none seen; runs train on the CPU")


def _runners() -> Iterator[Check]:
    yield Check("runner script", "ok", "needs nothing")
    yield Check("runner cleanrl", *readiness(os.environ))
    yield Check("CORL's scripts", *corl.readiness(os.environ))
    for runner, packages in RUNNER_PACKAGES.items():
        missing = [name for name in packages if importlib.util.find_spec(name) is None]
        if missing:
            install = " ".join(name.replace("_", "-") for name in missing)
            summary = f"not installed: {', '.join(missing)}"
            yield Check(f"runner {runner}", "note", summary, f"pip install {install}, if you want it")
        else:
            yield Check(f"runner {runner}", "ok", f"{', '.join(packages)} installed")
