"""Slots of envs: unique over all processes of a rank, so that two of them never share one."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

NAME = ".telemetry.slots"


class SlotNumbers:
    """Gives out slots. Processes of one rank of a run take them from a file in its directory."""

    def __init__(self, folder: Path, identity: str, rank: int = 0) -> None:
        """`identity` names the pipe: the numbers of an earlier attempt do not count."""
        self._path = folder / (f"{NAME}.{rank}" if rank else NAME) if identity else None
        self._identity = identity.replace(" ", "_")
        self._next = 0
        # Slots that this process has taken.
        self._own: set[int] = set()

    def forked(self) -> None:
        """Slots that were taken are the parent's."""
        self._own = set()

    def reuse(self, slots: set[int]) -> None:
        """Slots that this process has taken and does not use any more."""
        self._own |= slots

    def free(self, in_use: set[int], count: int) -> int:
        """The first of `count` consecutive slots that are not in use: of this process, or new ones."""
        left = self._own - in_use
        for first in sorted(left):
            if left.issuperset(range(first, first + count)):
                return first
        first = self.take(count)
        while in_use.intersection(range(first, first + count)):
            # A slot that the trainer chose itself.
            first = self.take(count)
        self._own.update(range(first, first + count))
        return first

    def take(self, count: int) -> int:
        """Take `count` consecutive slots and return the first."""
        first = self._next
        if self._path is not None:
            # Without the file, in a directory that is read-only or gone, they are unique in this process.
            with contextlib.suppress(OSError, ValueError):
                first = max(first, self._take_shared(self._path, first, count))
        self._next = first + count
        return first

    def _take_shared(self, path: Path, least: int, count: int) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            identity, _, number = os.pread(descriptor, 200, 0).decode("ascii").partition(" ")
            first = max(least, int(number)) if identity == self._identity else least
            text = f"{self._identity} {first + count}".encode("ascii")
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        finally:
            os.close(descriptor)
        return first
