"""Start the notices service: settings, channels and rules, loops."""

from __future__ import annotations

import sys

from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import wait_for_streams
from runspine.eventlog.subjects import ATTEMPTS, NOTICES, RUNS
from runspine.rpc.async_client import AsyncClient
from runspine.rpc.endpoint import Endpoint
from runspine.service.process import Health, open_link, open_log, run_service
from runspine.services.notices.core.projection import NoticeProjection
from runspine.services.notices.edges.configuration import configure
from runspine.services.notices.edges.decider import NoticeDecider
from runspine.services.notices.edges.delivery import NoticeDelivery
from runspine.services.notices.edges.metric_reader import MetricReader
from runspine.services.notices.edges.outbox import Outbox
from runspine.services.notices.edges.sender import NoticeSender
from runspine.services.notices.notices_file import NoticesConfig, NoticesFileError, read_notices_file
from runspine.services.notices.settings import NoticesSettings
from runspine.tasks import run_together


def main() -> int:
    settings = NoticesSettings.from_environment()
    if settings.notices_claim_seconds <= 3 * settings.notices_timeout_seconds:
        print(
            "RUNSPINE_NOTICES_CLAIM_SECONDS: must be more than three times RUNSPINE_NOTICES_TIMEOUT_SECONDS",
            file=sys.stderr,
        )
        return 2
    try:
        config = read_notices_file(settings.notices_file) if settings.notices_file else NoticesConfig()
    except NoticesFileError as error:
        print(error, file=sys.stderr)
        return 2
    return run_service("notices", settings, lambda health: serve(settings, config, health))


async def serve(settings: NoticesSettings, config: NoticesConfig, health: Health) -> None:
    starting = ["reading the log"]
    health.add(lambda: "".join(starting))
    async with open_link("notices", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, NOTICES, timeout=float("inf"))
        log = open_log(link, publisher, settings)
        projection = NoticeProjection(await configure(log, config))
        projector = Projector(log, None, projection)
        await projector.start()
        client = AsyncClient(
            Endpoint(
                settings.address,
                settings.telemetry_address,
                token=settings.token.get_secret_value(),
                patience=5.0,
            )
        )
        outbox = Outbox(log, projector, projection)
        delivery = NoticeDelivery(config, client, settings.notices_timeout_seconds)
        starting.clear()
        try:
            await run_together(
                *(projector.follow(stream) for stream in projection.streams),
                NoticeDecider(log, projector, projection, outbox).run(),
                MetricReader(client, projection, settings.notices_metric_seconds).run(),
                NoticeSender(projector, projection, outbox, delivery, settings).run(),
            )
        finally:
            await client.close()


if __name__ == "__main__":
    sys.exit(main())
