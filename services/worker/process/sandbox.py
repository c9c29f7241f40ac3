"""An optional sandbox for trainers: bubblewrap with its own process namespace and a read-only file system.

A sandboxed trainer sees only its own processes, so it cannot read the worker's memory and environment, and
of the worker's directory only its run's, which is the only place that it can write to.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PROGRAM = "bwrap"
# bubblewrap itself ignores SIGTERM; the trainer inside must receive it.
DEFAULT_SIGTERM = ("env", "--default-signal=TERM")
PROBE_SECONDS = 20.0


class SandboxError(Exception):
    """Trainers cannot be sandboxed on this machine."""


def sandboxed(command: list[str], directory: Path, run_dir: Path, worker_dir: Path) -> list[str]:
    """The command that runs `command` in the sandbox."""
    datasets = worker_dir / "datasets"
    return [
        PROGRAM,
        "--die-with-parent",
        "--unshare-pid",
        "--unshare-ipc",
        *("--ro-bind", "/", "/"),
        *("--dev-bind", "/dev", "/dev"),
        *("--proc", "/proc"),
        *("--tmpfs", str(worker_dir)),
        *(("--ro-bind", str(datasets), str(datasets)) if datasets.is_dir() else ()),
        *("--bind", str(run_dir), str(run_dir)),
        *("--chdir", str(directory)),
        "--",
        *DEFAULT_SIGTERM,
        *command,
    ]


def scratch_variables(run_dir: Path) -> dict[str, str]:
    """/tmp is read-only in the sandbox: temporary files go to the run's directory."""
    folder = run_dir / "tmp"
    folder.mkdir(mode=0o700, exist_ok=True)
    return {"TMPDIR": str(folder)}


def ensure_sandbox(worker_dir: Path) -> None:
    """Start the sandbox once to check that it works. Raises SandboxError."""
    if shutil.which(PROGRAM) is None:
        raise SandboxError(f"RUNSPINE_WORKER_SANDBOX is set, but there is no {PROGRAM}: install bubblewrap")
    command = sandboxed(["true"], worker_dir, worker_dir, worker_dir)
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"RUNSPINE_WORKER_SANDBOX is set, but {PROGRAM} does not answer") from error
    if done.returncode != 0:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise SandboxError(
            f"RUNSPINE_WORKER_SANDBOX is set, but {PROGRAM} cannot build it here: {reason}. "
            "User namespaces must be allowed; in a container they usually are not"
        )
