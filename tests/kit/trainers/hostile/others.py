"""Escapes to what belongs to others: files, memory, processes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal

from .registry import (
    GIVEN,
    PTRACE_ATTACH,
    call,
    changed,
    escape,
    libc,
    read,
    system_call,
)


@escape
def read_the_credentials() -> object:
    return read(GIVEN["credentials"])


@escape
def read_the_credentials_through_the_first_process() -> object:
    return read("/proc/1/root" + GIVEN["credentials"])


@escape
def read_the_credentials_through_its_current_directory() -> object:
    return read("/proc/1/cwd/" + "../" * 20 + GIVEN["credentials"].lstrip("/"))


@escape
def list_the_home_of_the_stack() -> object:
    kept = {os.path.relpath(GIVEN["run_dir"], GIVEN["home"]).split("/")[0]}
    return set(os.listdir(GIVEN["home"])) - kept


@escape
def list_the_directory_of_the_worker() -> object:
    return set(os.listdir(GIVEN["worker_dir"])) - {"runs"}


@escape
def list_the_directories_of_other_runs() -> object:
    return set(os.listdir(os.path.join(GIVEN["worker_dir"], "runs"))) - {os.environ["RUNSPINE_RUN_ID"]}


@escape
def read_a_file_of_another_run() -> object:
    return read(GIVEN["other_file"])


@escape
def write_to_another_run() -> object:
    return changed(GIVEN["other_file"])


@escape
def read_the_objects_of_s3_on_disk() -> object:
    return os.listdir(os.path.join(GIVEN["home"], "s3"))


@escape
def read_the_private_key_of_s3() -> object:
    return read(os.path.join(GIVEN["home"], "s3", "tls", "node.key"))


@escape
def read_the_log_on_disk() -> object:
    return os.listdir(os.path.join(GIVEN["home"], "nats"))


@escape
def read_the_passwords_of_the_machine() -> object:
    return read("/etc/shadow")


@escape
def read_a_secret_in_the_home_of_the_user() -> object:
    return read(GIVEN["secret_file"])


@escape
def find_a_password_in_its_environment() -> object:
    text = json.dumps(dict(os.environ))
    return [name for name, value in GIVEN["digests"].items() if _has(text, value)]


def _has(text: str, wanted: str) -> bool:
    import hashlib

    words = text.replace('"', " ").split()
    return any(hashlib.sha256(word.encode()).hexdigest() == wanted for word in words)


@escape
def read_the_environment_of_the_worker() -> object:
    return read(f"/proc/{GIVEN['worker']}/environ")


@escape
def read_the_memory_of_the_worker() -> object:
    return read(f"/proc/{GIVEN['worker']}/mem")


@escape
def copy_the_memory_of_the_worker() -> object:
    buffer = ctypes.create_string_buffer(64)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
    remote = (ctypes.c_void_p * 2)(0x400000, 64)
    return system_call("process_vm_readv", GIVEN["worker"], local, 1, remote, 1, 0)


@escape
def take_the_descriptors_of_the_worker() -> object:
    return os.listdir(f"/proc/{GIVEN['worker']}/fd")


@escape
def trace_the_worker() -> object:
    return call(libc.ptrace(PTRACE_ATTACH, GIVEN["worker"], 0, 0))


@escape
def hold_the_worker_by_a_descriptor() -> object:
    return system_call("pidfd_open", GIVEN["worker"], 0)


@escape
def signal_the_worker() -> object:
    os.kill(GIVEN["worker"], signal.SIGCONT)
    return "sent"


@escape
def kill_another_run() -> object:
    os.kill(GIVEN["other_pid"], signal.SIGKILL)
    return "sent"


@escape
def slow_the_worker_down() -> object:
    os.setpriority(os.PRIO_PROCESS, GIVEN["worker"], 19)
    return "set"


@escape
def see_processes_of_others() -> object:
    commands = [read(f"/proc/{name}/cmdline") for name in os.listdir("/proc") if name.isdigit()]
    return [each for each in commands if b"runspine.services" in each or b"nats-server" in each]


@escape
def keep_a_descriptor_that_was_inherited() -> object:
    usual = ("0", "1", "2", *GIVEN["extra"])
    found = {name: target for name, target in INHERITED.items() if name not in usual}
    return {
        name: target
        for name, target in found.items()
        if not target.startswith(("pipe:", "/proc/", "socket:"))
    }


def _target(name: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{name}")
    return ""


@escape
def read_the_shared_memory_of_others() -> object:
    return set(os.listdir("/dev/shm")) & set(GIVEN["shm"])


# Before any escape opens one of its own.
INHERITED = {name: target for name in os.listdir("/proc/self/fd") if (target := _target(name))}
