"""The process between the worker and one trainer: it kills all descendants when either of them ends.

Started as `python -I -S reaper.py <status fd> <lock fd> <telemetry fd>` with the standard library alone.
Its stdin is the life pipe: the first line is the launch as JSON, later lines are `term <grace seconds>`
or `kill`, and end of file means that the worker is gone. stdout, stderr and the telemetry descriptor are
passed to the trainer. Events go to the status pipe, one JSON object a line.

As a child subreaper it inherits every orphan below it, so daemons that forked twice, took a session of
their own or ignore SIGHUP are found and killed too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
# In a command, the places of descriptors that these are read from: the program of the system call filter, the
# trainer's environment as JSON or as arguments of bubblewrap, and the plan of a program next to a trainer.
FILTER = "RUNSPINE_FILTER"
ENVIRONMENT, ENVIRONMENT_ARGUMENTS = "RUNSPINE_ENVIRONMENT", "RUNSPINE_ENVIRONMENT_ARGUMENTS"
PLAN = "RUNSPINE_PLAN"
# The same numbers on every architecture.
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_RESTRICT_SELF = 444, 446
LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_SCOPE_SIGNAL = 1, 2
# When memory runs out, the kernel kills a trainer before the worker or its reaper.
OOM_SCORE = 500
# Longest wait for killed processes to disappear; one in uninterruptible sleep may never.
SWEEP_SECONDS = 10.0
# Signals that Python or the reaper handles; a trainer starts with the defaults.
HANDLED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Call prctl(2). Raises OSError."""
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def descendants(root: int) -> list[int]:
    """Every process below `root`, zombies left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_all(root: int, cgroup: str) -> list[int]:
    """Kill every process below `root`; those that could not be killed in time."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while True:
        if cgroup:
            kill_cgroup(cgroup)
        stopped: set[int] = set()
        # Stop before killing: a stopped process cannot fork faster than it is found.
        while fresh := set(descendants(root)) - stopped:
            for pid in fresh:
                send(pid, signal.SIGSTOP)
            stopped |= fresh
        for pid in stopped:
            send(pid, signal.SIGKILL)
        if root == os.getpid():
            reap()
        left = descendants(root)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.005)


def reap() -> dict[int, int]:
    """Reap ended children; wait statuses by process."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def kill_cgroup(path: str) -> None:
    """Kill every process of a cgroup."""
    with contextlib.suppress(OSError), open(os.path.join(path, "cgroup.kill"), "w") as file:
        file.write("1")


class Reaper:
    """Runs one trainer and obeys the commands of the worker."""

    def __init__(self, status: int, telemetry: int) -> None:
        self.status = status
        self.telemetry = telemetry
        self.trainer = 0
        self.cgroup = ""
        self.kill_at = float("inf")
        self.commands = b""
        self.worker = os.getppid()
        self.wakeup, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def report(self, **status: object) -> None:
        """Write one status line."""
        # Without a worker, only cleaning up remains.
        with contextlib.suppress(BrokenPipeError):
            os.write(self.status, json.dumps(status).encode() + b"\n")

    def run(self) -> None:
        """Start the trainer, wait for its end, and kill what it leaves behind."""
        line = self.first_line()
        if line is None:
            return
        launch = json.loads(line)
        self.cgroup = launch.get("cgroup", "")
        error = self.start(launch)
        if error:
            self.report(not_started=error)
            return
        self.report(started=self.trainer)
        self.close_output()
        status = self.wait()
        left = kill_all(os.getpid(), self.cgroup)
        code, number = exit_of(status, bool(launch.get("sandboxed")))
        self.report(exit_code=code, signal=number, left=left)

    def first_line(self) -> bytes | None:
        """The launch; None when the worker is gone."""
        while b"\n" not in self.commands:
            more = os.read(0, 1 << 16)
            if not more:
                return None
            self.commands += more
        line, _, self.commands = self.commands.partition(b"\n")
        return line

    def start(self, launch: dict[str, object]) -> str:
        """Start the trainer; the error when that fails, else an empty text."""
        result, errors = os.pipe()
        self.trainer = os.fork()
        if self.trainer == 0:
            become_trainer(launch, errors)
        os.close(errors)
        with os.fdopen(result, "rb") as file:
            error = file.read().decode("utf-8", "replace")
        if error:
            os.waitpid(self.trainer, 0)
        return error

    def close_output(self) -> None:
        """The worker's pipes must end with the trainer and its children, not with this process."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)
        os.close(self.telemetry)

    def wait(self) -> int:
        """Wait for the trainer's main process and obey commands meanwhile; its wait status."""
        alive = True
        while True:
            ended = reap()
            if self.trainer in ended:
                return ended[self.trainer]
            if time.monotonic() >= self.kill_at:
                send_group(self.trainer, signal.SIGKILL)
                self.kill_at = time.monotonic() + 0.5
            sources = [self.wakeup, 0] if alive else [self.wakeup]
            left = max(0.0, self.kill_at - time.monotonic())
            ready, _, _ = select.select(sources, [], [], min(left, 60.0))
            # With the worker alive it is not the parent-death signal: a scheduler such as Slurm signals every
            # process of a job, and the worker gives the trainer time for a checkpoint.
            termed = self.wakeup in ready and signal.SIGTERM in os.read(self.wakeup, 4096)
            if termed and os.getppid() != self.worker:
                self.kill_at = 0.0
            if 0 in ready:
                alive = self.obey()

    def obey(self) -> bool:
        """Execute commands of the worker; False when it is gone."""
        more = os.read(0, 4096)
        if not more:
            self.kill_at = 0.0
            return False
        self.commands += more
        while b"\n" in self.commands:
            line, _, self.commands = self.commands.partition(b"\n")
            word, _, argument = line.decode().partition(" ")
            if word == "kill":
                self.kill_at = 0.0
            elif word == "term":
                self.kill_at = min(self.kill_at, time.monotonic() + float(argument))
                send_group(self.trainer, signal.SIGTERM)
                # A stopped trainer would not handle SIGTERM before the grace is over.
                send_group(self.trainer, signal.SIGCONT)
        return True


def exit_of(status: int, sandboxed: bool) -> tuple[int, int]:
    """Exit code and signal of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    code = os.WEXITSTATUS(status)
    # bubblewrap reports a signal as shells do.
    return (0, code - 128) if sandboxed and code > 128 else (code, 0)


def send_group(leader: int, number: int) -> None:
    """Signal the trainer's group, and the trainer itself if it has moved to another.

    Never both: a second SIGTERM would hit a Python that is already on its way out.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(leader) != leader:
            os.kill(leader, number)


def become_trainer(launch: dict[str, object], errors: int) -> None:
    """In the child: execute the trainer, or write the error. Does not return."""
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if launch.get("cgroup"):
            with open(os.path.join(str(launch["cgroup"]), "cgroup.procs"), "w") as file:
                file.write("0")
        confine(int(str(launch.get("file_size") or 0)))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.chdir(str(launch["directory"]))
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        if launch.get("sandboxed"):
            # SIGTERM is for the trainer inside: it would end bubblewrap, and the trainer with it.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            stay_among_own()
        command, environment = launch["command"], launch["environment"]
        assert isinstance(command, list)
        assert isinstance(environment, dict)
        with given(command, contents(launch)) as (words, descriptors):
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)
            # What builds the sandbox is outside of it: LD_PRELOAD of a spec is not for it.
            within = launch.get("sandboxed") or launch.get("plan")
            outside = {"PATH": environment.get("PATH", os.defpath)} if within else environment
            os.execvpe(words[0], words, outside)
    except OSError as error:
        os.write(errors, f"{error.filename or ''}: {error.strerror}".lstrip(": ").encode())
    finally:
        os._exit(127)


def contents(launch: dict[str, object]) -> dict[str, bytes]:
    """What a command may read from descriptors."""
    environment = launch.get("environment") or {}
    assert isinstance(environment, dict)
    arguments = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    return {
        FILTER: bytes.fromhex(str(launch.get("filter") or "")),
        ENVIRONMENT: json.dumps(environment).encode(),
        ENVIRONMENT_ARGUMENTS: b"".join(os.fsencode(word) + b"\0" for word in arguments),
        PLAN: str(launch.get("plan") or "").encode(),
    }


@contextlib.contextmanager
def given(command: list[str], named: dict[str, bytes]) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The command with the numbers of descriptors in their places, and these descriptors."""
    opened: dict[str, int] = {}
    try:
        for word in command:
            if word in named and word not in opened:
                opened[word] = os.memfd_create(word, os.MFD_CLOEXEC)
                os.write(opened[word], named[word])
                os.lseek(opened[word], 0, os.SEEK_SET)
        yield [str(opened[word]) if word in opened else word for word in command], tuple(opened.values())
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def stay_among_own(scopes: int = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL) -> None:
    """Neither connect to abstract sockets of other processes nor signal them, where the kernel can forbid it.

    Namespaces do not: abstract sockets belong to the network, which trainers share. From Linux 6.12 on.
    """
    rules = struct.pack("QQQ", 0, 0, scopes)
    made = _libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE_RULESET), rules, ctypes.c_size_t(len(rules)), ctypes.c_uint(0)
    )
    if made < 0:
        return
    if _libc.syscall(ctypes.c_long(SYS_LANDLOCK_RESTRICT_SELF), ctypes.c_int(made), ctypes.c_uint(0)) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self refused")
    os.close(made)


def confine(file_size: int) -> None:
    """Forbid core dumps, new privileges and files above a size to the trainer and its children."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if file_size:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        limit = file_size if hard == resource.RLIM_INFINITY else min(file_size, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(OOM_SCORE))


def main(status: int, lock: int, telemetry: int) -> None:
    """Entry point of the reaper process."""
    for inherited in (status, lock):
        os.set_inheritable(inherited, False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    reaper = Reaper(status, telemetry)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # If the worker died before this line, the life pipe has ended.
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    reaper.run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
