"""What the dataset cache holds, for heartbeats, and requests to prune it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from google.protobuf.message import DecodeError

from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import subscribed
from runspine.eventlog.subjects import cache_subject
from runspine.services.worker.claim.dataset_cache import DatasetCache
from runspine.wire.v1.run_pb2 import CachedDataset, CachePrune

log = structlog.get_logger()

MEASURE_SECONDS = 5.0
MAX_REPORTED = 100
MAX_REQUESTS = 100
# A claim hands a dataset to a trainer within this time; after that the attempt is held.
CLAIM_SECONDS = 60.0


class CacheReports:
    """Measures the cache at intervals and prunes it on request, until cancelled."""

    def __init__(
        self, link: NatsConnection, worker_id: str, cache: DatasetCache, in_use: Callable[[], set[str]]
    ) -> None:
        self._link = link
        self._subject = cache_subject(worker_id)
        self._cache = cache
        self._in_use = in_use
        self._requests: asyncio.Queue[CachePrune] = asyncio.Queue(maxsize=MAX_REQUESTS)
        self._found: list[CachedDataset] = []

    def current(self) -> list[CachedDataset]:
        """The datasets on this host as last measured, the most recently used first."""
        return self._found

    async def run(self) -> None:
        async with subscribed(self._link, self._subject, self._receive):
            while True:
                self._found = (await asyncio.to_thread(self._cache.contents))[:MAX_REPORTED]
                try:
                    async with asyncio.timeout(MEASURE_SECONDS):
                        request = await self._requests.get()
                except TimeoutError:
                    continue
                await self._prune(request)

    def _receive(self, data: bytes) -> None:
        try:
            request = CachePrune.FromString(data)
        except DecodeError:
            return
        if not self._requests.full():
            self._requests.put_nowait(request)

    async def _prune(self, request: CachePrune) -> None:
        wanted = None if request.all else set(request.digests)
        removed = await self._cache.prune(wanted, self._in_use(), CLAIM_SECONDS)
        log.info("datasets.pruned", digests=removed)
