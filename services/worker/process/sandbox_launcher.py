"""Starts a program in a sandbox of its own, with the standard library alone; for machines without bubblewrap.

`python -I -S sandbox_launcher.py <plan as JSON> <descriptor of the environment> <command> …` is three
processes: this one, which waits; the first of the new process namespace, which collects orphans; and the
program, without capabilities. The exit code is the program's, or 128 and the number of its last signal.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Iterable

NEW_NS, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH = 2
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
SECCOMP_MODE_FILTER = 2
# The same numbers on every architecture.
SYS_MOUNT_SETATTR = 442
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Of /proc, what a program of root could write to by ownership alone.
CLOSED_PROC = ("sys", "sysrq-trigger", "irq", "bus")
NOT_STARTED = 127
MAX_DESCRIPTORS = 1024

_libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    given = [os.fsencode(text) if text else None for text in (source, target, kind)]
    check(_libc.mount(*given, ctypes.c_ulong(flags), os.fsencode(data) or None), f"mount {target}")


def protect(target: str, attributes: int) -> None:
    """Set attributes of a mount and of all below it."""
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    result = _libc.syscall(
        ctypes.c_long(SYS_MOUNT_SETATTR),
        ctypes.c_int(AT_FDCWD),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(AT_RECURSIVE),
        ctypes.c_char_p(wanted),
        ctypes.c_size_t(len(wanted)),
    )
    check(result, f"mount_setattr {target}")


def enter_namespaces(network: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    wanted = NEW_USER | NEW_NS | NEW_PID | NEW_IPC | (0 if network else NEW_NET)
    check(_libc.unshare(wanted), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    if not network:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            fcntl.ioctl(link, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def make_point(root: str, target: str, folder: bool) -> str:
    """The place for a mount in the new root."""
    path = root + target
    if folder:
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return path


def bind(root: str, source: int, target: str, attributes: int) -> None:
    """Mount what a descriptor leads to."""
    path = make_point(root, target, stat.S_ISDIR(os.fstat(source).st_mode))
    mount(f"/proc/self/fd/{source}", path, "", BIND | REC)
    protect(path, attributes)


def make_root(mounts: list[dict[str, str]]) -> str:
    """A root with these mounts, in a place that only this mount namespace has."""
    mount("", "/", "", REC | PRIVATE)
    root = "/tmp"
    # The mounts' sources may lie below it: they are opened before it is covered.
    sources = open_paths(entry["source"] for entry in mounts if entry["kind"] != "link")
    devices = open_paths(f"/dev/{name}" for name in DEVICES)
    mount("tmpfs", root, "tmpfs", NOSUID | NODEV, "mode=0755")
    make_devices(root, devices)
    for entry in mounts:
        add_mount(root, entry, sources)
    for descriptor in (*sources.values(), *devices.values()):
        os.close(descriptor)
    return root


def open_paths(paths: Iterable[str]) -> dict[str, int]:
    return {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in set(paths) if os.path.exists(path)}


def add_mount(root: str, entry: dict[str, str], sources: dict[str, int]) -> None:
    kind, source, target = entry["kind"], entry["source"], entry["target"]
    if kind == "link":
        make_point(root, os.path.dirname(target), folder=True)
        os.symlink(source, root + target)
    elif kind == "empty":
        mount("tmpfs", make_point(root, target, folder=True), "tmpfs", NOSUID | NODEV, "mode=0700")
    elif source in sources:
        attributes = ATTR_NOSUID | (ATTR_RDONLY if kind == "read" else 0)
        bind(root, sources[source], target, attributes | (0 if kind == "device" else ATTR_NODEV))


def make_devices(root: str, devices: dict[str, int]) -> None:
    mount("tmpfs", make_point(root, "/dev", folder=True), "tmpfs", NOSUID | NOEXEC, "mode=0755")
    for path, descriptor in devices.items():
        bind(root, descriptor, path, ATTR_NOSUID)
    mount("tmpfs", make_point(root, "/dev/shm", folder=True), "tmpfs", NOSUID | NODEV, "mode=1777")
    pts = make_point(root, "/dev/pts", folder=True)
    mount("devpts", pts, "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666")
    os.symlink("pts/ptmx", f"{root}/dev/ptmx")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{root}/dev/{name}")


def enter_root(root: str) -> None:
    """Make the new root the only one. Called by the first process of the process namespace."""
    proc = make_point(root, "/proc", folder=True)
    mount("proc", proc, "proc", NOSUID | NODEV | NOEXEC)
    # No namespaces in it, in which a program would have capabilities again.
    with open(f"{proc}/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
    for name in CLOSED_PROC:
        if os.path.exists(f"{proc}/{name}"):
            mount(f"{proc}/{name}", f"{proc}/{name}", "", BIND | REC)
            protect(f"{proc}/{name}", ATTR_RDONLY)
    os.chdir(root)
    check(_libc.syscall(ctypes.c_long(SYS_PIVOT_ROOT[os.uname().machine]), b".", b"."), "pivot_root")
    check(_libc.umount2(b".", DETACH), "umount2")
    os.chdir("/")


def drop_capabilities() -> None:
    """Neither the program nor what it starts can gain any, nor make namespaces to have them in."""
    for number in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    header, nothing = struct.pack("Ii", 0x20080522, 0), struct.pack("IIIIII", *[0] * 6)
    check(_libc.syscall(ctypes.c_long(SYS_CAPSET[os.uname().machine]), header, nothing), "capset")


def refuse_system_calls(program: bytes) -> None:
    """Install the filter; it stays with all that the program starts."""
    if not program:
        return
    # struct sock_fprog: the number of steps of eight bytes, and where they are.
    steps = ctypes.create_string_buffer(program)
    given = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(steps))
    check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, given, 0, 0), "seccomp")


def first_process(root: str, plan: dict[str, object], command: list[str], umask: int) -> None:
    """Enter the sandbox, start the program, collect orphans; the end of this process ends all in it."""
    check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    enter_root(root)
    os.umask(umask)
    program = os.fork()
    if program == 0:
        run_program(plan, command)
    # Not on the trainer's descriptors: its output ends with the last of its own processes.
    os.closerange(0, MAX_DESCRIPTORS)
    while True:
        pid, status = os.wait()
        if pid == program:
            os._exit(code_of(status))


def run_program(plan: dict[str, object], command: list[str]) -> None:
    try:
        os.chdir(str(plan["directory"]))
        drop_capabilities()
        if most := int(str(plan["processes"])):
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        refuse_system_calls(bytes.fromhex(str(plan["filter"])))
        environment = plan["environment"]
        assert isinstance(environment, dict)
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(2, f"sandbox: {error.filename or command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def code_of(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main(plan: dict[str, object], command: list[str]) -> int:
    """The exit code of the program."""
    mounts = plan["mounts"]
    assert isinstance(mounts, list)
    umask = os.umask(0o022)
    try:
        enter_namespaces(bool(plan["network"]))
        root = make_root(mounts)
        first = os.fork()
        if first == 0:
            first_process(root, plan, command, umask)
    except OSError as error:
        os.write(2, f"sandbox: {error.strerror}\n".encode())
        # In the first process too: it must not return to the caller's work.
        os._exit(NOT_STARTED)
    os.closerange(0, MAX_DESCRIPTORS)
    return code_of(os.waitpid(first, 0)[1])


if __name__ == "__main__":
    with open(int(sys.argv[2]), "rb") as environment:
        given = {**json.loads(sys.argv[1]), "environment": json.loads(environment.read())}
    os._exit(main(given, sys.argv[3:]))
