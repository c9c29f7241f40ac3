"""Starts a program next to a trainer: in its sandbox if it has one, on a terminal if one is given.

Run as a module with the descriptor of the plan, which is JSON, and a command. The plan names a process of the
trainer, whose namespaces are entered in the order that their owners require. The program can do no more than
the trainer could; with `trace` it keeps the capabilities that it has in the sandbox, by which py-spy reads
the memory of processes there. The exit code is the program's, or 128 and the number of its last signal.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import sys
import termios

from runspine.services.worker.process.reaper import LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, stay_among_own
from runspine.services.worker.process.sandbox_launcher import (
    NEW_IPC,
    NEW_NET,
    NEW_NS,
    NEW_PID,
    NEW_USER,
    NOT_STARTED,
    PR_SET_PDEATHSIG,
    check,
    code_of,
    drop_capabilities,
    refuse_system_calls,
)

# The user namespace that owns a namespace: linux/nsfs.h.
NS_GET_USERNS = 0xB701
# In this order: with the mounts of the sandbox, its /proc.
OTHERS = {"ipc": NEW_IPC, "net": NEW_NET, "pid": NEW_PID, "mnt": NEW_NS}

_libc = ctypes.CDLL(None, use_errno=True)


def main(plan: dict[str, object], command: list[str]) -> int:
    """The exit code of the program."""
    try:
        # A terminal belongs to the worker's /dev/pts, which the sandbox does not show.
        terminal = os.open(str(plan["terminal"]), os.O_RDWR | os.O_NOCTTY) if plan.get("terminal") else -1
        if pid := int(str(plan.get("process") or 0)):
            join(pid, int(str(plan["started"])))
        child = os.fork()
        if child == 0:
            run_program(plan, command, terminal)
    except OSError as error:
        os.write(2, f"{error.strerror}\n".encode())
        return NOT_STARTED
    if terminal >= 0:
        # The terminal must end with the program, not with this process.
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, terminal):
            os.dup2(null, number)
    return code_of(os.waitpid(child, 0)[1])


def join(pid: int, started: int) -> None:
    """Enter the namespaces of a process; refuses another that has its number by now."""
    opened = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in ("user", *OTHERS)}
    if start_time(pid) != started:
        raise OSError(0, "the trainer has ended")
    # bubblewrap gives programs a user namespace below the one that owns their mounts.
    owner = fcntl.ioctl(opened["mnt"], NS_GET_USERNS)
    # Looked up now: the /proc of the sandbox does not show this process.
    own = {name: os.stat(f"/proc/self/ns/{name}") for name in opened}
    enter(owner, NEW_USER, own["user"])
    for name, kind in OTHERS.items():
        enter(opened[name], kind, own[name])
    enter(opened["user"], NEW_USER, os.fstat(owner))
    for descriptor in (owner, *opened.values()):
        os.close(descriptor)


def enter(namespace: int, kind: int, own: os.stat_result) -> None:
    """Unless this process is in it, which the kernel refuses for user namespaces."""
    if not os.path.samestat(os.fstat(namespace), own):
        check(_libc.setns(namespace, kind), "setns")


def start_time(pid: int) -> int:
    """When a process was started, in ticks; by it and its number no other is taken for it."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def run_program(plan: dict[str, object], command: list[str], terminal: int) -> None:
    """In the child. Does not return."""
    try:
        check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        if terminal >= 0:
            take_terminal(terminal)
        os.chdir(str(plan["directory"]))
        confine(plan)
        environment = plan["environment"]
        assert isinstance(environment, dict)
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(2, f"{error.filename or command[0]}: {error.strerror}\r\n".encode())
    finally:
        os._exit(NOT_STARTED)


def take_terminal(terminal: int) -> None:
    """Make it the controlling terminal of a new session."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(terminal, number)
    os.close(terminal)


def confine(plan: dict[str, object]) -> None:
    """What holds for the trainer."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if most := int(str(plan.get("processes") or 0)):
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    if plan.get("trace"):
        return
    if plan.get("process"):
        drop_capabilities()
        # Signals to the trainer are what a shell next to it is for.
        stay_among_own(LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)
    refuse_system_calls(bytes.fromhex(str(plan.get("filter") or "")))


if __name__ == "__main__":
    # Not as an argument: others of the machine can read those, and the environment holds secrets.
    with open(int(sys.argv[1]), "rb") as given:
        wanted = json.loads(given.read())
    os._exit(main(wanted, sys.argv[2:]))
