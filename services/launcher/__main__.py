"""python -m services.launcher"""

from __future__ import annotations

import sys

from runspine.log.jetstream import JetStreamLog
from runspine.log.publisher import Publisher
from runspine.log.streams import wait_for_streams
from runspine.log.subjects import ATTEMPTS, RUNS
from runspine.projection import Projector
from runspine.service import Health, open_link, run_service
from runspine.tasks import run_together
from services.launcher.assembly import open_launchers
from services.launcher.core.runs import Runs
from services.launcher.edges.keeper import Keeper
from services.launcher.pools import Pool, WrongPools, read_pools
from services.launcher.settings import LauncherSettings


def main() -> int:
    settings = LauncherSettings.from_environment()
    try:
        pools = read_pools(settings.launcher_pools)
    except WrongPools as error:
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
        runs = Runs()
        projector = Projector(JetStreamLog(link, publisher), None, runs)
        await projector.start()
        keepers = [
            Keeper(name, pool, launchers[name], runs, projector, settings.launcher_seconds)
            for name, pool in pools.items()
        ]
        for keeper in keepers:
            health.add(keeper.told)
        await run_together(
            projector.follow(RUNS), projector.follow(ATTEMPTS), *(keeper.run() for keeper in keepers)
        )


if __name__ == "__main__":
    sys.exit(main())
