"""Launcher on Ray: one detached, named actor for each attempt, placed by cores, GPUs, memory and
resources."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import ray
from ray import cloudpickle
from ray.exceptions import RayError
from ray.util import list_named_actors

from runspine.services.launcher.core.placement import Placement, PlacementState
from runspine.services.launcher.engines import ray_process
from runspine.services.launcher.engines.port import EngineAwayError
from runspine.services.launcher.pools import RayPool
from runspine.wire.v1.run_pb2 import Run

T = TypeVar("T")
MIB = 1 << 20
CALL_SECONDS = 20.0
ALIVE_SECONDS = 0.2
STOP_SECONDS = 30.0


def connect(pool: RayPool) -> None:
    """Join the cluster as a driver. Raises EngineAwayError."""
    if ray.is_initialized():
        return
    cloudpickle.register_pickle_by_value(ray_process)
    try:
        ray.init(address=pool.address, namespace=pool.namespace, log_to_driver=False, logging_level="warning")
    except (RayError, ConnectionError, ValueError, RuntimeError) as error:
        raise EngineAwayError(f"Ray at {pool.address}: {error}") from error


class RayActors:
    """Launcher with Ray actors."""

    def __init__(self, pool_name: str, pool: RayPool) -> None:
        self._name = pool_name
        self._pool = pool
        # Actors that have answered: Ray reports placed and waiting actors alike.
        self._placed: set[str] = set()
        self._stopping: dict[str, float] = {}

    async def launch(self, run: Run) -> None:
        await self._call(self._launch, run)

    async def cancel(self, placement: Placement) -> None:
        await self._call(self._cancel, placement)

    async def placements(self) -> list[Placement]:
        return await self._call(self._placements)

    async def close(self) -> None:
        await asyncio.to_thread(ray.shutdown)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.to_thread(function, *arguments)
        except (RayError, ConnectionError, RuntimeError) as error:
            raise EngineAwayError(f"Ray at {self._pool.address}: {error}") from error

    def _launch(self, run: Run) -> None:
        pool, limits = self._pool, run.spec.limits
        token = secrets.token_hex(4)
        folder = f"{pool.directory}/{run.id}-{run.attempt}-{token}"
        variables = {
            **pool.variables,
            "RUNSPINE_WORKER_ONLY_RUN": run.id,
            "RUNSPINE_WORKER_ID": f"ray-{run.id}-{run.attempt}-{token}",
            "RUNSPINE_WORKER_DIR": folder,
            "RUNSPINE_WORKER_POOLS": self._name,
            "RUNSPINE_WORKER_SLOTS": "1",
        }
        memory = (limits.memory_mib or pool.memory_mib) + pool.overhead_mib
        options = {
            "name": _actor_name(self._name, run),
            "lifetime": "detached",
            "namespace": pool.namespace,
            "num_cpus": limits.cpus or pool.cpus,
            "num_gpus": run.spec.gpus,
            "memory": memory * MIB,
            "resources": pool.resources,
            "max_restarts": 0,
        }
        command = [pool.python, "-P", "-m", "runspine.services.worker"]
        try:
            ray.remote(ray_process.RayWorkerProcess).options(**options).remote(
                command, variables, pool.env_file, folder
            )
        except ValueError as error:
            # The name is taken: the actor exists already.
            if "already" not in str(error):
                raise EngineAwayError(str(error)) from error

    def _cancel(self, placement: Placement) -> None:
        """Stop the worker first; when called again, kill the actor."""
        try:
            actor = ray.get_actor(placement.name, namespace=self._pool.namespace)
        except ValueError:
            return
        if placement.state is PlacementState.RUNNING and placement.name not in self._stopping:
            self._stopping[placement.name] = 0.0
            actor.stop.remote()
        else:
            ray.kill(actor)

    def _placements(self) -> list[Placement]:
        names = [
            actor["name"] if isinstance(actor, dict) else actor
            for actor in list_named_actors(all_namespaces=False)
        ]
        own = [name for name in names if name.startswith(f"runspine/{self._name}/")]
        self._placed &= set(own)
        self._stopping = {name: at for name, at in self._stopping.items() if name in own}
        unknown = [name for name in own if name not in self._placed]
        self._placed.update(_alive(unknown, self._pool.namespace))
        found = []
        for name in own:
            _, _, run_id, attempt = name.split("/")
            state = PlacementState.RUNNING if name in self._placed else PlacementState.WAITING
            found.append(Placement(name, run_id, int(attempt), state))
        return found


def _actor_name(pool: str, run: Run) -> str:
    return f"runspine/{pool}/{run.id}/{run.attempt}"


def _alive(names: list[str], namespace: str) -> set[str]:
    """The actors that answer within ALIVE_SECONDS."""
    calls = {}
    for name in names:
        try:
            calls[ray.get_actor(name, namespace=namespace).pid.remote()] = name
        except ValueError:
            continue
    if not calls:
        return set()
    ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=ALIVE_SECONDS, fetch_local=False)
    return {calls[reference] for reference in ready}
