"""Requests to workers to remove datasets from their disks, on core NATS."""

from __future__ import annotations

from runspine.errors import Violation
from runspine.eventlog import EventLog, UnknownOutcomeError
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import try_publish
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import ARTIFACTS, cache_subject
from runspine.rpc.errors import InvalidInputError
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.registry import Registry
from runspine.services.orchestrator.edges.name_lookup import catch_up
from runspine.spec.nearest import not_accepted
from runspine.wire.v1.run_pb2 import CachePrune, Worker
from runspine.wire.v1.trainer_pb2 import PruneDatasetCacheRequest, PruneDatasetCacheResponse


class CacheRequests:
    """Publishes prune requests to the workers that hold datasets."""

    def __init__(self, link: NatsConnection, event_log: EventLog, board: Board, projector: Projector) -> None:
        self._link = link
        self._log = event_log
        self._board = board
        self._projector = projector

    async def prune(self, request: PruneDatasetCacheRequest) -> PruneDatasetCacheResponse:
        """Ask the workers. Raises InvalidInputError, and UnknownOutcomeError when NATS is unavailable."""
        workers = _chosen(self._board, request.worker_id)
        message = CachePrune(all=not request.dataset)
        if request.dataset:
            await catch_up(self._log, self._projector, (ARTIFACTS,))
            message.digests.append(_digest(self._board.registry, workers, request.dataset))
        for worker in workers:
            if not await try_publish(self._link, cache_subject(worker.id), message.SerializeToString()):
                raise UnknownOutcomeError("NATS does not take the request: try again in a moment")
        return PruneDatasetCacheResponse(workers=workers, digest="".join(message.digests))


def _chosen(board: Board, worker_id: str) -> list[Worker]:
    online = {name: worker for name, worker in sorted(board.workers.items()) if worker.online}
    if not worker_id:
        return list(online.values())
    if worker_id not in online:
        raise InvalidInputError([Violation("worker_id", not_accepted(worker_id[:80], online))])
    return [online[worker_id]]


def _digest(registry: Registry, workers: list[Worker], text: str) -> str:
    """The digest of a registered dataset, or of one that only caches still hold."""
    found = {entry.digest for entry in registry.datasets(text)}
    if not found and len(text) >= 6:
        cached = (each.digest for worker in workers for each in worker.cached_datasets)
        found = {digest for digest in cached if digest.startswith(text)}
    if not found:
        raise InvalidInputError([Violation("dataset", registry.dataset_not_found(text[:80]))])
    if len(found) > 1:
        raise InvalidInputError([Violation("dataset", f"{text!r} is the beginning of several digests")])
    return found.pop()
