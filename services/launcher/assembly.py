"""Opens one adapter for each pool. Only the adapters in use are imported: each needs a package of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

from runspine.services.launcher.engines.port import Launcher
from runspine.services.launcher.pools import KubernetesPool, Pool, RayPool, SlurmPool


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
            from runspine.services.launcher.engines.kubernetes_jobs import KubernetesJobs, connect_api

            return KubernetesJobs(connect_api(), name, pool)
        case RayPool():
            from runspine.services.launcher.engines.ray_actors import RayActors, connect

            connect(pool)
            return RayActors(name, pool)
        case SlurmPool():
            from runspine.services.launcher.engines.slurm_jobs import SlurmJobs

            return SlurmJobs(name, pool)
    raise AssertionError(f"no adapter for {pool!r}")
