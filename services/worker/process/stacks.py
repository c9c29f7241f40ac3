"""Describes the processes of a trainer, with the Python stacks that py-spy prints.

Of a sandboxed process py-spy runs in its sandbox: it reads the memory of a program that nobody vouches for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from runspine.services.worker.process import reaper, sandbox_join
from runspine.wire.v1.processes_pb2 import DumpStacksResponse, ProcessStacks

MAX_PROCESSES = 32
MAX_COMMAND_LENGTH = 200
MAX_STACK_LINES = 200
MAX_LINE_LENGTH = 300
# One process; and all of them, the last of which are described without stacks.
DUMP_SECONDS, ALL_SECONDS = 15.0, 40.0
PROGRAM = "py-spy"
# These interpret no Python: py-spy need not look.
NOT_PYTHON = "it runs no Python"


def describe_processes(root: int) -> DumpStacksResponse:
    """The processes below a reaper, without those that build its sandbox. Blocks."""
    own = os.readlink("/proc/self/ns/user")
    pids = sorted(pid for pid in reaper.descendants(root) if not _builds_sandbox(root, pid, own))
    until = time.monotonic() + ALL_SECONDS
    found = (_describe(pid, until) for pid in pids[:MAX_PROCESSES])
    return DumpStacksResponse(
        processes=[each for each in found if each is not None], left_out=max(0, len(pids) - MAX_PROCESSES)
    )


def stack_lines(found: DumpStacksResponse) -> Iterator[str]:
    """The same as lines of a log."""
    for process in found.processes:
        waits = f", waits in {process.waits_in}" if process.waits_in else ""
        missing = f" ({process.missing})" if process.missing and process.missing != NOT_PYTHON else ""
        yield f"process {process.pid} ({process.command}), state {process.state}{waits}{missing}"
        yield from (f"  {line}" for line in process.lines)
    if found.left_out:
        yield f"{found.left_out} more processes are left out"


def _builds_sandbox(root: int, pid: int, own: str) -> bool:
    """Whether it is the waiting process outside, or the first one inside, which collects orphans."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        outside = os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{root}/ns/pid")
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    # Only what began as a builder: a trainer without a sandbox is outside, too.
    builder = b"sandbox_launcher.py" in command or command.startswith(b"bwrap\0")
    return builder and (outside or numbers[-1:] == ["1"])


def _describe(pid: int, until: float) -> ProcessStacks | None:
    folder = Path(f"/proc/{pid}")
    try:
        words = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ")
        state = folder.joinpath("stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return None
    command = words.decode("utf-8", "replace")[:MAX_COMMAND_LENGTH].strip()
    described = ProcessStacks(pid=pid, command=command, state=state, waits_in=_waits_in(folder))
    lines, described.missing = _stack(pid, min(DUMP_SECONDS, until - time.monotonic()))
    described.lines.extend(line[:MAX_LINE_LENGTH] for line in lines[:MAX_STACK_LINES])
    return described


def _waits_in(folder: Path) -> str:
    try:
        name = folder.joinpath("wchan").read_text()
    except OSError:
        return ""
    return name if name.strip("0") else ""


def _stack(pid: int, seconds: float) -> tuple[list[str], str]:
    """Stacks of a process, or why there are none."""
    program = find_program()
    if program is None:
        return [], "py-spy is not installed on the worker"
    if not _is_python(pid):
        return [], NOT_PYTHON
    if seconds <= 0:
        return [], "there was no time left"
    try:
        return _dump(pid, program, seconds)
    except subprocess.TimeoutExpired:
        return [], f"py-spy took longer than {seconds:.0f} s"
    except (OSError, ValueError, IndexError) as error:
        return [], f"py-spy could not be started: {error}"


def _dump(pid: int, program: str, seconds: float) -> tuple[list[str], str]:
    inside = _number_inside(pid)
    dump = [program, "dump", "--nonblocking", "--pid", str(inside or pid)]
    plan: dict[str, object] = {
        "process": pid if inside else 0,
        "started": sandbox_join.start_time(pid),
        "directory": "/",
        "environment": {"PATH": os.defpath, "LANG": "C.UTF-8"},
        "trace": True,
    }
    command = [sys.executable, "-I", "-m", sandbox_join.__name__, reaper.PLAN, *dump]
    with reaper.given(command, {reaper.PLAN: json.dumps(plan).encode()}) as (words, descriptors):
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            pass_fds=descriptors,
            check=False,
            env={"PATH": os.defpath},
        )
    if done.returncode:
        message = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [], f"py-spy: {message[:MAX_LINE_LENGTH]}"
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    # Number, command and version come first; a command may have several lines.
    first = next((at for at, line in enumerate(lines) if line.startswith("Thread ")), len(lines))
    return lines[first:], ""


def _number_inside(pid: int) -> int:
    """Its number in its own process namespace; 0 when that is the worker's."""
    with open(f"/proc/{pid}/status") as file:
        numbers = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
    return int(numbers[-1]) if len(numbers) > 1 else 0


def _is_python(pid: int) -> bool:
    """Whether an interpreter of Python is among what it has mapped."""
    try:
        with open(f"/proc/{pid}/maps") as file:
            names = {line.rsplit("/", 1)[-1].strip() for line in file if "/" in line}
    except OSError:
        return True  # py-spy states what is in the way
    return any(name.startswith(("python", "libpython", "pypy")) for name in names)


def find_program() -> str | None:
    """py-spy next to this Python, where pip installs it, else on PATH."""
    installed = Path(sys.executable).with_name(PROGRAM)
    return str(installed) if os.access(installed, os.X_OK) else shutil.which(PROGRAM)
