"""Start the orchestrator: settings, adapters, loops."""

from __future__ import annotations

import sys

from prometheus_client import REGISTRY

from runspine.blobs import S3Blobs
from runspine.grpc_server import refuse_open_doors, serving
from runspine.log.jetstream import JetStreamLog
from runspine.log.link import Link
from runspine.log.publisher import Publisher
from runspine.log.streams import ensure_streams
from runspine.log.subjects import ATTEMPTS, RUNS
from runspine.projection import Projector
from runspine.runners import installed_runners
from runspine.service import Health, open_link, run_service
from runspine.tasks import run_together
from runspine.wire.v1.trainer_pb2_grpc import add_TrainerServiceServicer_to_server
from services.orchestrator.core.board import Board
from services.orchestrator.core.leases import Patience
from services.orchestrator.edges.conductor import Conductor
from services.orchestrator.edges.metrics import BoardCollector
from services.orchestrator.edges.offers import Offers
from services.orchestrator.edges.stream_sizes import show_streams
from services.orchestrator.edges.trainer import Trainer, TrainerServicer
from services.orchestrator.settings import OrchestratorSettings

SERVICE = "runspine.wire.v1.TrainerService"


async def serve(settings: OrchestratorSettings, health: Health) -> None:
    starting = ["reading the log"]
    health.add(lambda: "".join(starting))
    async with open_link("orchestrator", settings, health) as link, Publisher(link) as publisher:
        await ensure_streams(
            link, replicas=settings.stream_replicas, telemetry_bytes=settings.telemetry_bytes
        )
        log = JetStreamLog(link, publisher)
        board = Board()
        projector = Projector(log, None if settings.ignore_snapshot else S3Blobs(settings), board)
        await projector.start()
        REGISTRY.register(BoardCollector(board))
        conductor = Conductor(
            log,
            link,
            board,
            projector,
            Offers(link, publisher, settings.offer_ack_seconds),
            patience=Patience(settings.stale_after, settings.lost_after),
            window=settings.offer_window,
        )
        installed = {name: runner.info() for name, runner in installed_runners().items()}
        servicer = TrainerServicer(Trainer(log, board, projector, conductor, installed))
        async with serving(settings, [SERVICE], lambda s: add_TrainerServiceServicer_to_server(servicer, s)):
            starting.clear()
            await run_loops(projector, conductor, link, settings)


async def run_loops(
    projector: Projector, conductor: Conductor, link: Link, settings: OrchestratorSettings
) -> None:
    try:
        await run_together(
            projector.follow(RUNS),
            projector.follow(ATTEMPTS),
            conductor.follow_beats(),
            conductor.run_reactions(),
            conductor.run_leases(),
            conductor.run_offers(),
            show_streams(link),
            projector.keep_snapshots(settings.snapshot_commits, settings.snapshot_seconds),
        )
    finally:
        await projector.snapshot()


if __name__ == "__main__":
    chosen = OrchestratorSettings.from_environment()
    refuse_open_doors(chosen)
    sys.exit(run_service("orchestrator", chosen, lambda health: serve(chosen, health)))
