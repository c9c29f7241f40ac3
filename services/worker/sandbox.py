"""An optional wall around trainers: bubblewrap gives each its own processes and a file system to read from.

In it a trainer sees no process but its own, so that the worker's memory and environment are out of its
reach, no directory of the worker but its run's, and can write there alone.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PROGRAM = "bwrap"
# The wall itself must outlive the word that asks a trainer to end; the trainer must hear it.
HEARS = ("env", "--default-signal=TERM")
TRY_SECONDS = 20.0


class NoSandbox(Exception):
    """Why trainers cannot be walled in here."""


def walled(command: list[str], directory: Path, run_dir: Path, worker_dir: Path) -> list[str]:
    """The command, behind the wall."""
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
        *HEARS,
        *command,
    ]


def scratch(run_dir: Path) -> dict[str, str]:
    """/tmp can only be read in there; temporary files go to the run's own directory."""
    place = run_dir / "tmp"
    place.mkdir(mode=0o700, exist_ok=True)
    return {"TMPDIR": str(place)}


def ensure_sandbox(worker_dir: Path) -> None:
    """Try it once, as it will be used. Raises NoSandbox."""
    if shutil.which(PROGRAM) is None:
        raise NoSandbox(f"RUNSPINE_WORKER_SANDBOX is set, but there is no {PROGRAM}: install bubblewrap")
    command = walled(["true"], worker_dir, worker_dir, worker_dir)
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TRY_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NoSandbox(f"RUNSPINE_WORKER_SANDBOX is set, but {PROGRAM} does not answer") from error
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise NoSandbox(
            f"RUNSPINE_WORKER_SANDBOX is set, but {PROGRAM} cannot build it here: {said}. "
            "User namespaces must be allowed; in a container they usually are not"
        )
