"""Decides whether S3 has lost an object or is only starting up.

A server that has just started reports objects as missing that it has, or lists their names and cannot
read their bytes. An object counts as lost only after a server that passes a probe has failed to return
it for a given time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from runspine.ids import new_ulid
from runspine.storage.blobs import Blobs, BlobsUnavailableError

Probe = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Observation:
    """Since when an object has been missing, when it was last checked, and how often."""

    since: float
    checked: float
    checks: int = 0


class MissingObjects:
    """Objects that were reported missing and are not confirmed as lost.

    `probe` raises BlobsUnavailableError when the server does not work; every observation is then dropped.
    An object that was not checked for `stale_seconds` is observed from the start again.
    """

    def __init__(
        self,
        probe: Probe,
        patience: float,
        *,
        min_checks: int = 1,
        stale_seconds: float = math.inf,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._probe = probe
        self.patience = patience
        self._min_checks = min_checks
        self._stale_seconds = stale_seconds
        # Looked up now and not when the module is imported: the simulator has a clock of its own.
        self._clock = clock or time.monotonic
        self._observed: dict[str, _Observation] = {}

    async def confirmed(self, digest: str) -> bool:
        """Record that an object is missing; True when it counts as lost.

        Raises BlobsUnavailableError when the server does not work.
        """
        try:
            await self._probe()
        except BlobsUnavailableError:
            self._observed.clear()
            raise
        now = self._clock()
        observed = self._observed.get(digest)
        if observed is None or now - observed.checked > self._stale_seconds:
            observed = self._observed[digest] = _Observation(now, now)
        observed.checked = now
        observed.checks += 1
        return observed.checks >= self._min_checks and now - observed.since >= self.patience

    def settled(self, digest: str) -> None:
        """Forget an object: it was found, or its loss has been handled."""
        self._observed.pop(digest, None)


async def write_probe(blobs: Blobs, key: str) -> None:
    """Write a new object and read it back. Raises BlobsUnavailableError."""
    token = new_ulid().encode()
    await blobs.put(key, token)
    if await blobs.get(key) != token:
        raise BlobsUnavailableError("S3 does not return an object that was just stored")


async def read_probe(blobs: Blobs, key: str, content: bytes) -> None:
    """Read an object with known content; it is stored when it is not there. Raises BlobsUnavailableError."""
    if await blobs.get(key) != content:
        await blobs.put(key, content)
        raise BlobsUnavailableError(f"S3 has lost {key}, the object that shows whether it can be read")
