"""Locks between workers of one host that share a folder: held until closed, or their process ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
from pathlib import Path

RETRY_SECONDS = 0.2


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the lock, or None while another process or descriptor holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return descriptor


async def lock(path: Path, *, shared: bool = False) -> int:
    """Wait for a lock; a descriptor that holds it."""
    while True:
        if (descriptor := try_lock(path, shared=shared)) is not None:
            return descriptor
        await asyncio.sleep(RETRY_SECONDS)


def unlock(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)
