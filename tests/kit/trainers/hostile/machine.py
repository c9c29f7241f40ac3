"""Escapes to the machine: its system, its kernel, its network, and the worker that uploads."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import time

from .registry import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    GIVEN,
    NotTriedError,
    call,
    changed,
    escape,
    libc,
    read,
    system_call,
    write,
)


@escape
def write_to_the_system() -> object:
    return write("/usr/bin/hostile")


@escape
def write_to_the_python_of_the_worker() -> object:
    return write(os.path.join(os.path.dirname(json.__file__), "hostile.py"))


@escape
def write_to_the_package() -> object:
    import runspine

    return write(os.path.join(os.path.dirname(runspine.__file__), "hostile.py"))


@escape
def write_to_the_home_of_the_user() -> object:
    # It has a home of its own: what it writes there is not in the user's.
    path = os.path.join(os.path.dirname(GIVEN["secret_file"]), "hostile")
    with contextlib.suppress(OSError):
        write(path)
    return None


@escape
def replace_the_lock_of_its_reaper() -> object:
    lock = os.path.join(GIVEN["run_dir"], "keeper.lock")
    write("lock")
    os.replace("lock", lock)
    return read(lock) or "replaced"


@escape
def write_to_the_lock_of_its_reaper() -> object:
    return changed(os.path.join(GIVEN["run_dir"], "keeper.lock"))


@escape
def link_the_credentials_into_its_directory() -> object:
    os.link(GIVEN["credentials"], "linked")
    return read("linked")


@escape
def mount_a_file_system() -> object:
    return call(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))


@escape
def uncover_what_is_hidden() -> object:
    return call(libc.umount2(GIVEN["worker_dir"].encode(), 2))


@escape
def make_a_user_namespace() -> object:
    return call(libc.unshare(CLONE_NEWUSER))


@escape
def enter_the_namespace_of_the_first_process() -> object:
    descriptor = os.open("/proc/1/ns/mnt", os.O_RDONLY)
    return call(libc.setns(descriptor, CLONE_NEWNS))


@escape
def change_its_root() -> object:
    os.chroot("/usr")
    return "changed"


@escape
def become_another_user() -> object:
    os.setuid(os.getuid() + 1)
    return os.getuid()


@escape
def gain_by_a_program_with_the_bit() -> object:
    if os.getuid() == 0:
        raise NotTriedError("the worker's user is root already")
    for program in ("/usr/bin/su", "/usr/bin/mount", "/bin/mount"):
        if os.path.exists(program):
            tried = [program, "-c", "id -u"]
            done = subprocess.run(
                tried, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
            if done.stdout.strip() == "0":
                return program
    return None


@escape
def make_a_device() -> object:
    os.mknod("disk", 0o60600, os.makedev(8, 0))
    return read("disk")


@escape
def open_the_memory_of_the_machine() -> object:
    for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore"):
        with contextlib.suppress(OSError):
            return read(path)[:8]
    return None


@escape
def read_the_messages_of_the_kernel() -> object:
    return read("/dev/kmsg")


@escape
def open_a_disk() -> object:
    return [name for name in os.listdir("/dev") if name.startswith(("sd", "vd", "nvme", "dm-", "loop"))]


@escape
def have_the_kernel_start_a_program() -> object:
    return changed("/proc/sys/kernel/core_pattern")


@escape
def ask_the_kernel_to_restart() -> object:
    return write("/proc/sysrq-trigger")


@escape
def leave_its_cgroup() -> object:
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in ("cgroup.procs", "memory.max", "pids.max"):
            if name in files:
                with contextlib.suppress(OSError):
                    return changed(os.path.join(folder, name))
    return None


@escape
def trace_the_kernel() -> object:
    return os.listdir("/sys/kernel/debug") + os.listdir("/sys/kernel/tracing")


@escape
def open_files_by_handle() -> object:
    handle = struct.pack("Ii8s", 8, 1, b"\2\0\0\0\0\0\0\0")
    root = os.open("/", os.O_RDONLY)
    return system_call("open_by_handle_at", root, handle, os.O_RDONLY)


@escape
def load_a_program_into_the_kernel() -> object:
    return system_call("bpf", 5, ctypes.create_string_buffer(128), 128)


@escape
def sample_the_worker() -> object:
    attributes = struct.pack("IIQ", 1, 112, 0) + bytes(96)
    return system_call("perf_event_open", attributes, GIVEN["worker"], -1, -1, 0)


@escape
def rename_the_machine() -> object:
    return call(libc.sethostname(os.fsencode(socket.gethostname()), len(socket.gethostname())))


@escape
def set_the_clock() -> object:
    time.clock_settime(time.CLOCK_REALTIME, time.time())
    return "set"


@escape
def type_into_the_terminal() -> object:
    descriptor = os.open("/dev/tty", os.O_RDWR)
    return os.ttyname(descriptor)


@escape
def write_more_than_its_limit() -> object:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "raised"


@escape
def leave_a_process_behind() -> object:
    # The test looks whether it is left.
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    return None
