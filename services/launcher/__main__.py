"""Start the launcher: settings, pools, one reconciler for each pool."""

from __future__ import annotations

import sys

from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import wait_for_streams
from runspine.eventlog.subjects import ATTEMPTS, RUNS
from runspine.service.process import Health, open_link, open_log, run_service
from runspine.services.launcher.assembly import open_launchers
from runspine.services.launcher.core.runs import OpenRuns
from runspine.services.launcher.edges.reconciler import PoolReconciler
from runspine.services.launcher.edges.reports import PlacementReports
from runspine.services.launcher.pools import Pool, PoolsFileError, read_pools
from runspine.services.launcher.settings import LauncherSettings
from runspine.tasks import run_together


def main() -> int:
    settings = LauncherSettings.from_environment()
    try:
        pools = read_pools(settings.launcher_pools)
    except PoolsFileError as error:
        print(error, file=sys.stderr)
        return 2
    return run_service("launcher", settings, lambda health: launch(settings, dict(pools), health))


async def launch(settings: LauncherSettings, pools: dict[str, Pool], health: Health) -> None:
    async with (
        open_link("launcher", settings, health) as link,
        Publisher(link) as publisher,
        open_launchers(pools) as launchers,
    ):
        await wait_for_streams(link, RUNS, ATTEMPTS, timeout=float("inf"))
        runs = OpenRuns()
        event_log = open_log(link, publisher, settings)
        signs = not settings.log_root or settings.signing_key.get_secret_value()
        reports = PlacementReports(event_log if signs else None)
        projector = Projector(event_log, None, runs)
        await projector.start()
        reconcilers = [
            PoolReconciler(name, pool, launchers[name], runs, projector, settings.launcher_seconds, reports)
            for name, pool in pools.items()
        ]
        for reconciler in reconcilers:
            health.add(reconciler.health)
        await run_together(
            projector.follow(RUNS),
            projector.follow(ATTEMPTS),
            *(reconciler.run() for reconciler in reconcilers),
        )


if __name__ == "__main__":
    sys.exit(main())
