"""Escapes by system calls that reach into the kernel, or around the filter of them."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import struct

from .registry import CLONE_NEWUSER, GIVEN, NotTriedError, call, changed, escape, libc, read, system_call

TIOCSTI = 0x5412
KEYCTL_SEARCH, KEYCTL_READ, SESSION_KEYRING = 10, 11, -3
SIGCHLD, SYS_CLONE, X32, SYS_GETPID, SYS_GETPID_32 = 17, 56, 0x40000000, 39, 20


@escape
def make_a_ring_of_the_kernel() -> object:
    return system_call("io_uring_setup", 8, ctypes.create_string_buffer(120))


@escape
def handle_page_faults() -> object:
    return system_call("userfaultfd", 0)


@escape
def read_a_key_of_the_session() -> object:
    if not GIVEN["key"]:
        raise NotTriedError("this kernel has no keyrings")
    found = libc.syscall(
        ctypes.c_long(250), KEYCTL_SEARCH, SESSION_KEYRING, b"user", GIVEN["key"].encode(), ctypes.c_int(0)
    )
    call(found)
    buffer = ctypes.create_string_buffer(64)
    call(libc.syscall(ctypes.c_long(250), KEYCTL_READ, found, buffer, ctypes.c_size_t(64)))
    return buffer.value


@escape
def make_a_user_namespace_with_a_child() -> object:
    child = libc.syscall(ctypes.c_long(SYS_CLONE), ctypes.c_ulong(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return call(child)


@escape
def make_a_user_namespace_by_the_newer_call() -> object:
    given = struct.pack("8Q", CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0)
    child = libc.syscall(ctypes.c_long(435), given, ctypes.c_size_t(len(given)))
    if child == 0:
        os._exit(0)
    return call(child)


@escape
def pass_the_filter_by_32_bit_calls() -> object:
    if os.uname().machine != "x86_64":
        raise NotTriedError("not x86-64")
    # mov eax, 20; int 0x80; ret: getpid as a 32-bit program asks for it.
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes([0xB8, SYS_GETPID_32, 0, 0, 0, 0xCD, 0x80, 0xC3]))
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    # In a child: a kernel without such calls ends the process.
    source, sink = os.pipe()
    if os.fork() == 0:
        os.write(sink, struct.pack("i", ctypes.CFUNCTYPE(ctypes.c_int)(address)()))
        os._exit(0)
    os.close(sink)
    os.wait()
    answer = os.read(source, 4)
    if not answer:
        raise NotTriedError("this kernel has no 32-bit calls")
    (got,) = struct.unpack("i", answer)
    return got if got > 0 else None


@escape
def pass_the_filter_by_the_second_table() -> object:
    if os.uname().machine != "x86_64":
        raise NotTriedError("not x86-64")
    return call(libc.syscall(ctypes.c_long(X32 + SYS_GETPID)))


@escape
def type_into_its_terminals() -> object:
    done = []
    for path in ("/dev/console", "/dev/tty", "/dev/stdin", "/dev/stdout", "/dev/stderr"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(descriptor, TIOCSTI, b"x")
            done.append(path)
        except OSError:
            continue
    # A terminal of its own stands for one that it was given.
    leader, follower = os.openpty()
    if os.fork() == 0:
        os.setsid()
        fcntl.ioctl(follower, 0x540E, 0)
        try:
            fcntl.ioctl(follower, TIOCSTI, b"x")
        except OSError:
            os._exit(0)
        os._exit(7)
    if os.waitstatus_to_exitcode(os.wait()[1]) == 7:
        done.append("a terminal of its own")
    os.close(leader)
    return done


@escape
def have_the_kernel_call_a_helper() -> object:
    got = []
    for path in (
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hotplug",
        "/sys/kernel/uevent_helper",
        "/proc/sys/fs/binfmt_misc/register",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/release_agent",
    ):
        try:
            got.append(changed(path))
        except OSError:
            continue
    return got


@escape
def be_spared_when_memory_runs_out() -> object:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
    return read("/proc/self/oom_score_adj")


@escape
def raise_the_limits_of_the_worker() -> object:
    return resource.prlimit(GIVEN["worker"], resource.RLIMIT_NOFILE, (1, 1))


@escape
def use_shared_memory_of_system_v() -> object:
    return call(libc.shmget(GIVEN["shm_key"], 0, 0))


@escape
def open_a_queue_of_others() -> object:
    return call(ctypes.CDLL("librt.so.1", use_errno=True).mq_open(GIVEN["queue"].encode(), os.O_RDWR))


@escape
def take_descriptors_out_of_the_first_process() -> object:
    holder = libc.syscall(ctypes.c_long(434), 1, 0)
    call(holder)
    got = []
    for number in range(64):
        taken = libc.syscall(ctypes.c_long(438), holder, number, 0)
        if taken >= 0:
            target = os.readlink(f"/proc/self/fd/{taken}")
            # What it has itself, and what bubblewrap waits for its own child with.
            if not target.startswith(("pipe:", "anon_inode:", "/dev/null", "/proc", "/newroot", "socket:")):
                got.append(target)
    return got


@escape
def read_the_memory_of_another_run() -> object:
    return read(f"/proc/{GIVEN['other_pid']}/mem")


@escape
def read_the_environment_of_another_run() -> object:
    return read(f"/proc/{GIVEN['other_pid']}/environ")


@escape
def change_the_memory_of_the_worker() -> object:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(0x400000, 8)
    return system_call("process_vm_writev", GIVEN["worker"], local, 1, remote, 1, 0)


@escape
def trace_another_run() -> object:
    return call(libc.ptrace(16, GIVEN["other_pid"], 0, 0))
