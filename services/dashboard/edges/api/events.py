"""Changes as server-sent events: numbers, not data; pages fetch what they show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import orjson

from runspine.services.dashboard.edges.run_follower import RunFollower

# At most so often a page learns of changes, and at least so often that the connection lives.
EVENT_SECONDS, KEEP_ALIVE_SECONDS = 0.5, 10.0
MAX_WATCHED = 64


class ChangeEvents:
    """The number of the newest change, of the list and of watched runs, as it rises."""

    def __init__(self, runs: RunFollower, epoch: str) -> None:
        self._runs = runs
        self._epoch = epoch

    async def stream(self, watched: Sequence[str]) -> AsyncIterator[bytes]:
        """Events until the caller goes. The first states how it is now: who comes back misses nothing."""
        yield b"retry: 1000\n\n"
        sent_state: tuple[int, int, str] | None = None
        sent = time.monotonic()
        while True:
            now = (self._runs.table.version, self._runs.artifacts.position, self._runs.trouble)
            if now != sent_state:
                yield self._event(watched, now[2])
                sent_state, sent = now, time.monotonic()
            elif time.monotonic() - sent > KEEP_ALIVE_SECONDS:
                yield b"event: alive\ndata: {}\n\n"
                sent = time.monotonic()
            await asyncio.sleep(EVENT_SECONDS)

    def _event(self, watched: Sequence[str], trouble: str) -> bytes:
        table = self._runs.table
        entries = ((run_id, table.get(run_id)) for run_id in watched)
        changed = {
            run_id: [entry.version, self._runs.artifacts.of(run_id)]
            for run_id, entry in entries
            if entry is not None
        }
        body = orjson.dumps(
            {
                "epoch": self._epoch,
                "version": table.version,
                "all": len(table),
                "runs": changed,
                "trouble": trouble,
            }
        )
        return b"id: %b.%d\ndata: %b\n\n" % (self._epoch.encode(), table.version, body)
