"""What a worker is told by its environment."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from runspine.log.subjects import is_token
from runspine.settings import ServiceSettings


def own_name() -> str:
    """The host's name, made fit to be part of a subject."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname())[:64].strip("-") or "worker"


def own_cores() -> int:
    """The cores of the machine."""
    return os.cpu_count() or 1


class WorkerSettings(ServiceSettings):
    worker_id: str = Field(
        default_factory=own_name, description="name of this worker, one for each directory"
    )
    worker_dir: Path = Field(Path("var/worker"), description="where journal and run directories live")
    worker_slots: int = Field(default_factory=own_cores, ge=1, description="runs at the same time")
    worker_pools: str = Field("default", description="pools served, first one first, comma separated")
    worker_only_run: str = Field(
        "", description="serve this run alone, then end: for workers that a launcher starts"
    )
    beat_seconds: float = Field(1.0, gt=0, description="time between heartbeats")
    progress_seconds: float = Field(60.0, gt=0, description="least time between progress facts of a run")
    upload_wait: float = Field(
        60.0, ge=0, description="longest time a run's end waits for its checkpoints to be in S3"
    )
    checkpoint_patience: float = Field(
        30.0,
        ge=0,
        description="seconds for which a working S3 must fail to give a checkpoint before it counts as lost",
    )
    reserve_after: float = Field(
        300.0, ge=0, description="seconds a run waits for room before smaller ones are kept out for it"
    )
    worker_gpus: str = Field(
        "", description="GPUs to give away: a number, or ids, comma separated; all there are when empty"
    )
    runner_python: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict, description="the Python of each runner, as a JSON map of name to path"
    )
    spool_mib: float = Field(
        2048, gt=0, description="telemetry kept on disk while the log is away, in MiB; then trainers wait"
    )
    dataset_cache_mib: float = Field(
        20_480, ge=0, description="datasets kept on disk for the next run, in MiB; then the oldest goes"
    )
    worker_sandbox: bool = Field(
        False,
        description="wall trainers in with bubblewrap; a worker that cannot have it does not start",
    )
    drain_seconds: float = Field(20.0, gt=0, description="longest time a stopping worker waits for the log")

    @property
    def pools(self) -> list[str]:
        return [pool.strip() for pool in self.worker_pools.split(",") if pool.strip()]

    @field_validator("runner_python", mode="before")
    @classmethod
    def _is_json(cls, given: object) -> object:
        try:
            return json.loads(given) if isinstance(given, str) else given
        except ValueError as error:
            raise ValueError(f'{given!r} is not JSON such as {{"sb3": "/path/to/python"}}') from error

    @field_validator("worker_id")
    @classmethod
    def _is_token(cls, worker_id: str) -> str:
        if not is_token(worker_id):
            raise ValueError(f"{worker_id!r}: use letters, digits, - and _ (at most 64)")
        return worker_id

    @field_validator("worker_pools")
    @classmethod
    def _are_tokens(cls, pools: str) -> str:
        names = [pool.strip() for pool in pools.split(",") if pool.strip()]
        if not names or not all(is_token(name) for name in names):
            raise ValueError(f"{pools!r}: name at least one pool, with letters, digits, - and _")
        return pools
