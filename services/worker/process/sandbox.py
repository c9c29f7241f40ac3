"""The sandbox of trainers: namespaces of their own, and a root that holds what they need.

A sandboxed trainer sees only its own processes, so it cannot read the worker's memory and environment; of
the file system it sees programs, libraries and its run's directory, which is all that it can write to. It is
built by bubblewrap where that is installed, else by `sandbox_launcher.py`; `auto` takes what works.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from runspine.services.worker.process import reaper, sandbox_launcher
from runspine.services.worker.process.sandbox_plan import (
    Mount,
    OwnPaths,
    SandboxPlan,
    SandboxPolicy,
    plan_sandbox,
)
from runspine.services.worker.process.system_calls import filter_program
from runspine.services.worker.settings import OFF, WorkerSettings, split_list

log = structlog.get_logger()

PROGRAM = "bwrap"
BUBBLEWRAP, NAMESPACES = "bubblewrap", "namespaces"
ENGINES = (BUBBLEWRAP, NAMESPACES)
AUTO = "auto"
# bubblewrap itself ignores SIGTERM; the trainer inside must receive it.
DEFAULT_SIGTERM = ("env", "--default-signal=TERM")
LIMITER = "prlimit"
PROBE_SECONDS = 20.0
# Above a limit of processes, so that the worker sees that it is exceeded.
SPARE_PROCESSES = 64
# A trainer of root could write to these by ownership alone.
CLOSED_PROC = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
_OPTIONS = {"read": "--ro-bind-try", "write": "--bind", "device": "--dev-bind-try"}


class SandboxError(Exception):
    """Trainers cannot be sandboxed on this machine."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How trainers are isolated on this machine; without an engine not at all, and `missing` states why."""

    engine: str
    policy: SandboxPolicy
    missing: str = ""
    # Whether every trainer is without a network, whatever its spec asks for.
    offline: bool = False

    def __bool__(self) -> bool:
        return bool(self.engine)

    def plan(
        self,
        run_dir: Path,
        directory: Path,
        program: str,
        reads: Sequence[Path],
        own: OwnPaths,
        network: str,
    ) -> SandboxPlan:
        """What a trainer sees; makes its /tmp. Blocks."""
        make_scratch(run_dir)
        connected = network != "none" and not self.offline
        return plan_sandbox(self.policy, run_dir, directory, program, reads, own=own, network=connected)

    def command(self, plan: SandboxPlan, command: list[str], processes: int = 0) -> list[str]:
        """The command that runs `command` in the sandbox, with at most so many processes if not 0.

        The kernel counts those of one sandbox, but for a worker of root it does not refuse any.
        """
        most = _most_processes(processes)
        if self.engine == BUBBLEWRAP:
            limited = shutil.which(LIMITER) if most else None
            return bubblewrapped(plan, [limited, f"--nproc={most}", *command] if limited else command)
        given = {
            "mounts": [asdict(mount) for mount in plan.mounts],
            "directory": plan.directory,
            "network": plan.network,
            "processes": most,
            "filter": filter_program(os.uname().machine).hex(),
        }
        launcher = (sys.executable, "-I", "-S", sandbox_launcher.__file__)
        return [*launcher, json.dumps(given), reaper.ENVIRONMENT, *command]


def _most_processes(processes: int) -> int:
    """The limit that the kernel is given; 0 for none."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = processes + SPARE_PROCESSES if processes else 0
    return min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted


def bubblewrapped(plan: SandboxPlan, command: list[str]) -> list[str]:
    """The command line of bubblewrap; a reaper puts in the descriptors of filter and environment. Pure."""
    closed = [word for path in CLOSED_PROC for word in ("--ro-bind-try", path, path)]
    return [
        PROGRAM,
        "--die-with-parent",
        *("--unshare-user", "--unshare-pid", "--unshare-ipc"),
        *(() if plan.network else ("--unshare-net",)),
        *("--disable-userns", "--cap-drop", "ALL"),
        *(("--seccomp", reaper.FILTER) if filter_program(os.uname().machine) else ()),
        *("--dev", "/dev", "--proc", "/proc"),
        *closed,
        *(word for mount in plan.mounts for word in _words(mount)),
        *("--chdir", plan.directory),
        *("--args", reaper.ENVIRONMENT_ARGUMENTS),
        "--",
        *DEFAULT_SIGTERM,
        *command,
    ]


def _words(mount: Mount) -> tuple[str, ...]:
    if mount.kind == "empty":
        return "--tmpfs", mount.target
    if mount.kind == "link":
        return "--symlink", mount.source, mount.target
    return _OPTIONS[mount.kind], mount.source, mount.target


def find_sandbox(wanted: str, policy: SandboxPolicy, *, offline: bool = False) -> Sandbox:
    """The sandbox by the worker's setting: `auto`, `require`, `off` or the name of an engine. Blocks.

    Raises SandboxError when one is required and there is none.
    """
    if wanted == OFF:
        return Sandbox("", policy, "RUNSPINE_WORKER_SANDBOX is off")
    reasons = []
    for engine in (wanted,) if wanted in ENGINES else ENGINES:
        sandbox = Sandbox(engine, policy, offline=offline)
        try:
            ensure_sandbox(sandbox)
        except SandboxError as error:
            reasons.append(str(error))
        else:
            return sandbox
    if wanted != AUTO:
        raise SandboxError(f"RUNSPINE_WORKER_SANDBOX is {wanted}, but {'; '.join(reasons)}")
    return Sandbox("", policy, "; ".join(reasons))


def make_sandbox(settings: WorkerSettings) -> Sandbox:
    """The sandbox of a worker. Blocks. Raises SandboxError."""
    hidden = (
        *split_list(settings.sandbox_hidden),
        *([str(settings.s3_sync_dir)] if settings.s3_sync_dir else ()),
    )
    policy = SandboxPolicy(settings.worker_dir, split_list(settings.sandbox_paths), hidden, worker_home())
    found = find_sandbox(settings.worker_sandbox, policy, offline=settings.worker_network == "none")
    if settings.worker_network == "none" and not found:
        raise SandboxError(f"RUNSPINE_WORKER_NETWORK is none, which needs a sandbox: {found.missing}")
    log.info("sandbox.found", engine=found.engine or "none", missing=found.missing)
    return found


def ensure_sandbox(sandbox: Sandbox) -> None:
    """Start it once to check that it works. Raises SandboxError."""
    if sandbox.engine == BUBBLEWRAP and shutil.which(PROGRAM) is None:
        raise SandboxError(f"there is no {PROGRAM}: install bubblewrap")
    scratch = sandbox.policy.worker_dir / "sandbox"
    try:
        make_scratch(scratch)
        plan = plan_sandbox(sandbox.policy, scratch, scratch, sys.executable, network=not sandbox.offline)
        command = sandbox.command(plan, [sys.executable, "-I", "-c", "import runspine"])
        launch: dict[str, object] = {
            "environment": dict(os.environ),
            "filter": filter_program(os.uname().machine).hex(),
        }
        with reaper.given(command, reaper.contents(launch)) as (probe, descriptors):
            done = subprocess.run(
                probe,
                check=False,
                capture_output=True,
                text=True,
                timeout=PROBE_SECONDS,
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
            )
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"{sandbox.engine} does not answer") from error
    except OSError as error:
        raise SandboxError(f"{sandbox.engine} cannot be started: {error}") from error
    if done.returncode != 0:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise SandboxError(
            f"{sandbox.engine} cannot build it here: {reason}. "
            "User namespaces must be allowed; in a container they usually are not"
        )


def make_scratch(run_dir: Path) -> None:
    """Create the folder that a trainer has as /tmp."""
    (run_dir / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)


def worker_home() -> Path:
    """The home folder of the worker's user, empty for trainers; a made-up one where that is no folder."""
    home = Path(os.path.expanduser("~"))
    return home if home.is_absolute() and len(home.parts) > 1 else Path("/home/trainer")
