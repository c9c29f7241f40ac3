"""Start the orchestrator: settings, adapters, gRPC server, loops."""

from __future__ import annotations

import gc
import sys
from dataclasses import asdict

import structlog
from prometheus_client import REGISTRY

from runspine.audit.trail import writing
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import ensure_streams
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.notice.book import NoticeBook
from runspine.rpc.server import check_listener, serving
from runspine.runners import installed_runners
from runspine.service.process import Health, open_link, open_log, run_service
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.caller_limits import CallerLimits
from runspine.services.orchestrator.core.leases import LeaseTimeouts
from runspine.services.orchestrator.edges.cache_requests import CacheRequests
from runspine.services.orchestrator.edges.launch_checks import LaunchChecks
from runspine.services.orchestrator.edges.metrics import BoardCollector
from runspine.services.orchestrator.edges.notice_calls import NoticeCalls
from runspine.services.orchestrator.edges.offers import OfferStream
from runspine.services.orchestrator.edges.run_processes import RunProcesses
from runspine.services.orchestrator.edges.scheduler import Scheduler
from runspine.services.orchestrator.edges.stream_sizes import publish_stream_sizes
from runspine.services.orchestrator.edges.trainer_service import TrainerCalls, TrainerServicer
from runspine.services.orchestrator.settings import OrchestratorSettings
from runspine.storage.blobs import S3Blobs
from runspine.tasks import run_together
from runspine.wire.v1.trainer_pb2_grpc import add_TrainerServiceServicer_to_server

SERVICE = "runspine.wire.v1.TrainerService"


async def serve(settings: OrchestratorSettings, health: Health) -> None:
    starting = ["reading the log"]
    health.add(lambda: "".join(starting))
    async with open_link("orchestrator", settings, health) as link, Publisher(link) as publisher:
        changes = await ensure_streams(
            link, replicas=settings.stream_replicas, telemetry_bytes=settings.telemetry_bytes
        )
        for change in changes:
            structlog.get_logger().info("stream.changed", **asdict(change))
        log = open_log(link, publisher, settings)
        if await log.begin_signing():
            structlog.get_logger().warning("log.signing_began", remedy="unsigned commits no longer count")
        board = Board()
        projector = Projector(log, None if settings.ignore_snapshot else S3Blobs(settings), board)
        await projector.start()
        leave_heap_alone()
        REGISTRY.register(BoardCollector(board))
        scheduler = Scheduler(
            log,
            link,
            board,
            projector,
            OfferStream(link, publisher, settings.offer_ack_seconds),
            timeouts=LeaseTimeouts(settings.stale_after, settings.lost_after),
            window=settings.offer_window,
        )
        installed = {name: runner.info() for name, runner in installed_runners().items()}
        checks = LaunchChecks(link, board)
        caches = CacheRequests(link, log, board, projector)
        pools = frozenset(name.strip() for name in settings.pools.split(",") if name.strip())
        limits = CallerLimits(settings.max_active_runs, pools)
        book = NoticeBook()
        notices = NoticeCalls(log, book, Projector(log, None, book))
        processes = RunProcesses(link)
        servicer = TrainerServicer(
            TrainerCalls(
                log, board, projector, scheduler, installed, checks, caches, notices, processes, limits
            )
        )
        async with (
            checks.open(),
            processes.open(),
            writing("orchestrator", log) as audit,
            serving(settings, [SERVICE], lambda s: add_TrainerServiceServicer_to_server(servicer, s), audit),
        ):
            starting.clear()
            await run_together(notices.follow(), run_loops(projector, scheduler, link, settings))


def leave_heap_alone() -> None:
    """The board is not garbage: otherwise each full collection holds the event loop while it looks at all."""
    gc.collect()
    gc.freeze()


async def run_loops(
    projector: Projector, scheduler: Scheduler, link: NatsConnection, settings: OrchestratorSettings
) -> None:
    try:
        await run_together(
            projector.follow(RUNS),
            projector.follow(ATTEMPTS),
            projector.follow(ARTIFACTS),
            scheduler.follow_beats(),
            scheduler.run_reactions(),
            scheduler.run_leases(),
            scheduler.run_offers(),
            publish_stream_sizes(link),
            projector.keep_snapshots(settings.snapshot_commits, settings.snapshot_seconds),
        )
    finally:
        await projector.snapshot()


if __name__ == "__main__":
    chosen = OrchestratorSettings.from_environment()
    check_listener(chosen)
    sys.exit(run_service("orchestrator", chosen, lambda health: serve(chosen, health)))
