"""Seats as detached, named actors of a Ray cluster, which Ray places by cores, GPUs, memory and resources."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import ray
from ray import cloudpickle
from ray.exceptions import RayError
from ray.util import list_named_actors

from runspine.wire.v1.run_pb2 import Run
from services.launcher.core.seats import Seat, State
from services.launcher.launchers import seat as seat_module
from services.launcher.launchers.port import Away
from services.launcher.pools import RayPool

T = TypeVar("T")
MIB = 1 << 20
CALL_SECONDS = 20.0
ALIVE_SECONDS = 0.2
STOP_SECONDS = 30.0


def connect(pool: RayPool) -> None:
    """Join the cluster as a driver. Raises Away."""
    if ray.is_initialized():
        return
    cloudpickle.register_pickle_by_value(seat_module)
    try:
        ray.init(address=pool.address, namespace=pool.namespace, log_to_driver=False, logging_level="warning")
    except (RayError, ConnectionError, ValueError, RuntimeError) as error:
        raise Away(f"Ray at {pool.address}: {error}") from error


class RaySeats:
    def __init__(self, pool_name: str, pool: RayPool) -> None:
        self._name = pool_name
        self._pool = pool
        # Those that were seen alive: Ray tells a placed actor from a waiting one by its answer only.
        self._placed: set[str] = set()
        self._stopping: dict[str, float] = {}

    async def launch(self, run: Run) -> None:
        await self._call(self._launch, run)

    async def cancel(self, seat: Seat) -> None:
        await self._call(self._cancel, seat)

    async def seats(self) -> list[Seat]:
        return await self._call(self._seats)

    async def close(self) -> None:
        await asyncio.to_thread(ray.shutdown)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.to_thread(function, *arguments)
        except (RayError, ConnectionError, RuntimeError) as error:
            raise Away(f"Ray at {self._pool.address}: {error}") from error

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
        command = [pool.python, "-P", "-m", "services.worker"]
        try:
            ray.remote(seat_module.Seat).options(**options).remote(command, variables, pool.env_file, folder)
        except ValueError as error:
            # The name is taken: it was launched already.
            if "already" not in str(error):
                raise Away(str(error)) from error

    def _cancel(self, seat: Seat) -> None:
        """First a word to the worker, then the end."""
        try:
            actor = ray.get_actor(seat.name, namespace=self._pool.namespace)
        except ValueError:
            return
        if seat.state is State.RUNNING and seat.name not in self._stopping:
            self._stopping[seat.name] = 0.0
            actor.stop.remote()
        else:
            ray.kill(actor)

    def _seats(self) -> list[Seat]:
        names = [
            told["name"] if isinstance(told, dict) else told
            for told in list_named_actors(all_namespaces=False)
        ]
        own = [name for name in names if name.startswith(f"runspine/{self._name}/")]
        self._placed &= set(own)
        self._stopping = {name: at for name, at in self._stopping.items() if name in own}
        unknown = [name for name in own if name not in self._placed]
        self._placed.update(_alive(unknown, self._pool.namespace))
        found = []
        for name in own:
            _, _, run_id, attempt = name.split("/")
            state = State.RUNNING if name in self._placed else State.WAITING
            found.append(Seat(name, run_id, int(attempt), state))
        return found


def _actor_name(pool: str, run: Run) -> str:
    return f"runspine/{pool}/{run.id}/{run.attempt}"


def _alive(names: list[str], namespace: str) -> set[str]:
    """Those that answer within a moment."""
    asked = {}
    for name in names:
        try:
            asked[ray.get_actor(name, namespace=namespace).pid.remote()] = name
        except ValueError:
            continue
    if not asked:
        return set()
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=ALIVE_SECONDS, fetch_local=False)
    return {asked[reference] for reference in ready}
