"""One adapter for each pool. Only what a pool asks for is imported: each needs a package of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

from services.launcher.launchers.port import Launcher
from services.launcher.pools import KubernetesPool, Pool, RayPool


@contextlib.asynccontextmanager
async def open_launchers(pools: Mapping[str, Pool]) -> AsyncIterator[dict[str, Launcher]]:
    opened: dict[str, Launcher] = {}
    try:
        for name, pool in pools.items():
            opened[name] = _open(name, pool)
        yield opened
    finally:
        for launcher in opened.values():
            await launcher.close()


def _open(name: str, pool: Pool) -> Launcher:
    match pool:
        case KubernetesPool():
            from services.launcher.launchers.kubernetes_jobs import KubernetesJobs, connected

            return KubernetesJobs(connected(), name, pool)
        case RayPool():
            from services.launcher.launchers.ray_seats import RaySeats, connect

            connect(pool)
            return RaySeats(name, pool)
    raise AssertionError(f"no adapter for {pool!r}")
