"""The escapes, and what they share. One returns what it got, and None or an error when nothing came of it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

GIVEN: dict[str, Any] = {}
ESCAPES: dict[str, Callable[[], object]] = {}
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, CLONE_NEWUSER, CLONE_NEWNS, RENAME_EXCHANGE = 16, 0x10000000, 0x20000, 2
# Numbers of system calls on x86-64.
SYS = {
    "process_vm_readv": 310,
    "pidfd_open": 434,
    "open_by_handle_at": 304,
    "bpf": 321,
    "perf_event_open": 298,
    "process_vm_writev": 311,
    "pidfd_getfd": 438,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "keyctl": 250,
    "clone3": 435,
}


class NotTriedError(Exception):
    """This machine has nothing to try an escape on; the text states what is missing."""


def escape(function: Callable[[], object]) -> Callable[[], object]:
    ESCAPES[function.__name__] = function
    return function


def call(result: int) -> str:
    """What a system call got; raises the error that it gave."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"returned {result}"


def system_call(name: str, *arguments: object) -> str:
    if os.uname().machine != "x86_64":
        raise OSError(f"the number of {name} is not known here")
    return call(libc.syscall(SYS[name], *arguments))


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(4096)


def write(path: str) -> str:
    with open(path, "ab") as file:
        file.write(b"")
    return f"opened {path}"


def changed(path: str) -> str:
    with open(path, "r+b") as file:
        return f"opened {file.name}"
