"""What a sandboxed trainer sees: an empty root, and a list of mounts in it. Changes nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import runspine

Kind = Literal["read", "write", "device", "empty", "link"]

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt/nvidia", "/opt/rocm")
# Of /etc, what programs need to run, to find hosts and to check certificates; no password, no key.
ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "egl", "fonts", "gai.conf", "glvnd", "group",
    "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types",
    "nsswitch.conf", "nvidia", "nvidia-container-runtime", "OpenCL", "os-release", "passwd", "pki",
    "protocols", "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "vulkan",
)  # fmt: skip
# Below the home folder of the worker's user: data that packages have downloaded.
CACHES = (".minari/datasets", ".mujoco", ".d4rl", ".cache/torch", ".cache/huggingface/hub", ".cache/clip")
GPUS = ("dri", "kfd", "accel")
# Hidden even where /sys is readable: a worker of root may read them by ownership alone.
KERNEL = ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/firmware")
# Trees of which nothing is given because a spec names it.
CLOSED = ("/etc", "/proc", "/sys", "/dev", "/run", "/boot", "/var/run", "/var/lib", "/root/.ssh")


@dataclass(frozen=True, slots=True)
class Mount:
    """One path in the sandbox: a file or folder to read or write, a device, an empty folder, or a link."""

    kind: Kind
    target: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What the worker's settings give to every trainer."""

    worker_dir: Path
    # Paths to read, or with `:rw` to write.
    paths: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    home: Path = Path("/nonexistent")


@dataclass(frozen=True, slots=True)
class OwnPaths:
    """What the worker made for one trainer in addition to the run's directory."""

    dataset: Path | None = None
    # The folders of the sockets for live frames and for telemetry.
    sockets: tuple[Path, ...] = ()
    # The reaper's lock, which is in the run's directory and not for the trainer to change.
    lock: Path | None = None
    # What it reads in folders of the worker, and Pythons that this was made from.
    reads: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """The mounts of one trainer, parents first."""

    mounts: tuple[Mount, ...]
    directory: str
    network: bool = True
    # Paths of the spec that are not given, with the reason.
    refused: tuple[str, ...] = ()


def plan_sandbox(
    policy: SandboxPolicy,
    run_dir: Path,
    directory: Path,
    python: str,
    reads: Sequence[Path] = (),
    *,
    own: OwnPaths | None = None,
    network: bool = True,
) -> SandboxPlan:
    """The plan for a trainer: `reads` are paths that its spec names, `own` those that the worker made."""
    mounts: dict[str, Mount] = {}
    refused: list[str] = []
    system = (*SYSTEM, *(f"/etc/{name}" for name in ETC), "/sys")
    pythons = [path for word in (python, *map(str, reads)) for path in _named_python(policy, word)]
    for path in (*map(Path, system), *pythons, *python_paths(sys.executable), *_package()):
        _add_read(mounts, path)
    _add_devices(mounts)
    _add_empty(mounts, policy.home, *(Path(path) for path in KERNEL if os.path.isdir(path)))
    for name in CACHES:
        _add_read(mounts, policy.home / name)
    for path in (directory, *reads):
        if path != run_dir and not path.is_relative_to(run_dir):
            refused += _add_named(mounts, policy, path)
    for entry in policy.paths:
        name, _, mode = entry.partition(":")
        mounts[name] = Mount("write" if mode == "rw" else "read", name, name)
    _hide(mounts, policy)
    _add_own(mounts, run_dir, own or OwnPaths())
    ordered = sorted(mounts.values(), key=lambda mount: (len(Path(mount.target).parts), mount.target))
    return SandboxPlan(tuple(ordered), str(directory), network, tuple(refused))


def _add_own(mounts: dict[str, Mount], run_dir: Path, own: OwnPaths) -> None:
    """The run's directory, its temporary files, and what the worker made for it."""
    for path in (*own.sockets, run_dir):
        mounts[str(path)] = Mount("write", str(path), str(path))
    mounts["/tmp"] = Mount("write", "/tmp", str(run_dir / "tmp"))  # its own, in the run's directory
    for path in (*own.reads, *([own.dataset] if own.dataset is not None else ())):
        _add_read(mounts, path)
    if own.lock is not None:
        # A restarted worker trusts it.
        mounts[str(own.lock)] = Mount("read", str(own.lock), str(own.lock))


def _add_read(mounts: dict[str, Mount], path: Path) -> None:
    target = str(path)
    if path.is_symlink() and path.parent == Path("/"):
        mounts[target] = Mount("link", target, os.readlink(path))
    elif path.exists():
        # The source is resolved: /etc/resolv.conf is a link into /run on many machines.
        mounts[target] = Mount("read", target, os.path.realpath(path))


def _add_empty(mounts: dict[str, Mount], *paths: Path) -> None:
    for path in paths:
        mounts[str(path)] = Mount("empty", str(path))


def _add_devices(mounts: dict[str, Mount]) -> None:
    names = sorted(os.listdir("/dev"))
    for name in names:
        if name in GPUS or name.startswith("nvidia"):
            mounts[f"/dev/{name}"] = Mount("device", f"/dev/{name}", f"/dev/{name}")


def _add_named(mounts: dict[str, Mount], policy: SandboxPolicy, path: Path) -> list[str]:
    """Give a path that a spec names, of a file its folder, read-only; the reason when it is not given."""
    if path.is_file() and not closed_reason(Path(os.path.realpath(path.parent)), policy):
        path = path.parent
    found = Path(os.path.realpath(path))
    given = [mount.target for mount in mounts.values() if mount.kind == "read"]
    if not found.exists():
        return []
    hidden = any(found.is_relative_to(each) for each in (*policy.hidden, str(policy.worker_dir)))
    if not hidden and any(path.is_relative_to(each) for each in given):
        return []
    if why := closed_reason(found, policy):
        return [f"{path} is not visible to the trainer: {why}"]
    mounts[str(path)] = Mount("read", str(path), str(found))
    return []


def closed_reason(path: Path, policy: SandboxPolicy) -> str:
    """Why a path that a spec names is not given to its trainer; empty when it is."""
    hidden = [*policy.hidden, str(policy.worker_dir), *CLOSED]
    if any(path.is_relative_to(each) for each in hidden):
        return "it belongs to the worker or to the system"
    if len(path.parts) <= 2 and path != policy.home:
        return "it holds more than one project: name a folder in it, or set RUNSPINE_SANDBOX_PATHS"
    if policy.home != path and policy.home.is_relative_to(path):
        return "it holds a home folder: name a folder in it, or set RUNSPINE_SANDBOX_PATHS"
    if any(part.startswith(".") for part in path.parts):
        return "it is in a hidden folder: set RUNSPINE_SANDBOX_PATHS"
    return ""


def _hide(mounts: dict[str, Mount], policy: SandboxPolicy) -> None:
    """Cover what lies in a folder that is given: the stack's home, and hidden entries of a user's home."""
    given = [mount.target for mount in mounts.values() if mount.kind in ("read", "write")]
    hidden = [*policy.hidden, str(policy.worker_dir)]
    if str(policy.home) in given:
        hidden += [entry.path for entry in os.scandir(policy.home) if entry.name.startswith(".")]
    for path in hidden:
        inside = any(Path(path).is_relative_to(each) for each in given)
        if not inside or path in mounts:
            continue
        if os.path.isdir(path):
            mounts[path] = Mount("empty", path)
        elif os.path.exists(path):
            mounts[path] = Mount("read", path, os.devnull)


def _package() -> list[Path]:
    """The modules of Runspine in a checkout; nothing else that may lie there."""
    package = Path(runspine.__file__).parent
    return [package, package.parent / "services"] if (package.parent / "services").is_dir() else [package]


def _named_python(policy: SandboxPolicy, program: str) -> list[Path]:
    """The folders of an interpreter that a spec names, or of a program next to one, such as torchrun.

    None where runs write: there a trainer could have made one, which claims any folder as its own.
    """
    place = Path(os.path.abspath(program))
    if place.parent.name != "bin" or any(place.is_relative_to(each) for each in _written(policy)):
        return []
    return python_paths(program)


def _written(policy: SandboxPolicy) -> list[str]:
    named = [entry.partition(":") for entry in policy.paths]
    return [str(policy.worker_dir), *policy.hidden, *(name for name, _, mode in named if mode == "rw")]


def python_paths(python: str) -> list[Path]:
    """The folders of an interpreter: its virtualenv, the Python that it was made from, editable projects."""
    prefix = Path(os.path.abspath(python)).parent.parent
    found = [prefix, Path(os.path.realpath(python)).parent.parent]
    try:
        lines = (prefix / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        lines = []
    found += [Path(line.partition("=")[2].strip()).parent for line in lines if line.startswith("home")]
    # A program of another kind has its folder by another name, or is in /usr.
    kept = [path for path in found if path != Path("/usr") and any(path.glob("lib/python3*"))]
    return [*kept, *(path for each in kept for path in (*_editable_projects(each), *_added_folders(each)))]


def _editable_projects(prefix: Path) -> Iterable[Path]:
    """Folders that packages of a virtualenv are installed from in place (PEP 610)."""
    for file in prefix.glob("lib/python3*/site-packages/*.dist-info/direct_url.json"):
        try:
            about = json.loads(file.read_text())
            url = urlsplit(str(about["url"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        editable = isinstance(about.get("dir_info"), dict) and about["dir_info"].get("editable")
        if editable and url.scheme == "file" and not file.parent.name.startswith("runspine-"):
            yield Path(unquote(url.path))


def _added_folders(prefix: Path) -> Iterable[Path]:
    """Folders that .pth files of a virtualenv add to its path, such as another one's packages."""
    for file in prefix.glob("lib/python3*/site-packages/*.pth"):
        try:
            lines = file.read_text().splitlines()
        except (OSError, ValueError):
            continue
        if not file.name.startswith("__editable__.runspine-"):
            yield from (Path(line) for line in lines if line.startswith("/") and os.path.isdir(line))
