"""Whether S3 has really lost an object, or is only not quite up yet.

A server that has just come back answers for a while that it has no such object, or has its name and not
its bytes. Beginning a training anew because of that throws it away: an object counts as lost only when
a store that otherwise works has failed to give it for a whole patience.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from runspine.blobs import Blobs, BlobsUnavailable
from runspine.ids import new_ulid

# A doubt that was not looked into for so long is a new one.
STALE_SECONDS = 30.0


@dataclass(slots=True)
class _Doubt:
    since: float
    seen: float


class Doubts:
    def __init__(
        self, blobs: Blobs, name: str, patience: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._blobs = blobs
        self._probe = f"probes/{name}"
        self.patience = patience
        self._clock = clock
        self._doubts: dict[str, _Doubt] = {}

    async def confirmed(self, digest: str) -> bool:
        """Whether it has been missing long enough. Raises BlobsUnavailable when the store does not work."""
        try:
            await self._prove()
        except BlobsUnavailable:
            self._doubts.clear()
            raise
        now = self._clock()
        doubt = self._doubts.get(digest)
        if doubt is None or now - doubt.seen > STALE_SECONDS:
            doubt = self._doubts[digest] = _Doubt(now, now)
        doubt.seen = now
        return now - doubt.since >= self.patience

    def settled(self, digest: str) -> None:
        self._doubts.pop(digest, None)

    async def _prove(self) -> None:
        """Write something and read it back."""
        token = new_ulid().encode()
        await self._blobs.put(self._probe, token)
        if await self._blobs.get(self._probe) != token:
            raise BlobsUnavailable("S3 does not give back what was just stored")
