"""What a hostile trainer looks for outside its sandbox, laid out by the test: a secret in each place."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

SECRET = b"of the user"
JOIN_SESSION_KEYRING, SESSION_KEYRING = 1, -3
SYS_ADD_KEY, SYS_KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine, (-1, -1))
IPC_CREATE, IPC_REMOVE = 0o1000, 0
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def laid_out(folder: Path) -> Iterator[dict[str, Any]]:
    """Secrets that this process and what it starts can reach, and what a trainer learns of them."""
    file = folder / "user" / "secret"
    file.parent.mkdir()
    file.write_bytes(SECRET)
    name = f"runspine-bait-{os.getpid()}"
    with ExitStack() as stack:
        memory = SharedMemory(create=True, size=16)
        stack.callback(memory.unlink)
        stack.callback(memory.close)
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(f"\0{name}")
        listener.listen()
        yield {
            "secret_file": str(file),
            "shm": [memory.name],
            "abstract": name,
            "key": name if _add_key(name) else "",
            "shm_key": _system_v(stack),
            "queue": _queue(stack, name),
        }
    assert not (file.parent / "hostile").exists()
    assert file.read_bytes() == SECRET


def _add_key(name: str) -> bool:
    """Put a key into a session keyring, which processes inherit; False where there are none."""
    joined = _libc.syscall(ctypes.c_long(SYS_KEYCTL), JOIN_SESSION_KEYRING, None)
    size = ctypes.c_size_t(len(SECRET))
    return bool(
        joined >= 0
        and _libc.syscall(ctypes.c_long(SYS_ADD_KEY), b"user", name.encode(), SECRET, size, SESSION_KEYRING)
        >= 0
    )


def _system_v(stack: ExitStack) -> int:
    key = 0x52530000 | (os.getpid() & 0xFFFF)
    made = _libc.shmget(key, 4096, IPC_CREATE | 0o600)
    assert made >= 0
    stack.callback(_libc.shmctl, made, IPC_REMOVE, None)
    return key


def _queue(stack: ExitStack, name: str) -> str:
    path = f"/{name}".encode()
    descriptor = _libc.mq_open(path, os.O_CREAT | os.O_RDWR, 0o600, None)
    assert descriptor >= 0
    stack.callback(_libc.mq_unlink, path)
    stack.callback(os.close, descriptor)
    return path.decode()
