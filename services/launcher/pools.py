"""The pools file: which pools are launched on which engine. An error names each wrong field."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from runspine.eventlog.subjects import is_token

DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


class PoolsFileError(Exception):
    """The file cannot be used; the message names each field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Pool(_Strict):
    limit: int = Field(100, ge=1, description="placements at the same time, waiting or running")
    grace_seconds: float = Field(120, ge=0, description="time for uploads after a run has ended")
    cpus: float = Field(1.0, gt=0, description="cores of a run that names none")
    memory_mib: int = Field(2048, ge=64, description="memory of a run that names none")
    # Memory of the worker itself, in addition to the trainer's.
    overhead_mib: int = Field(512, ge=0)


class KubernetesPool(Pool):
    launcher: Literal["kubernetes"]
    namespace: DnsName
    image: str = Field(min_length=1)
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: list[DnsName] = []
    service_account: DnsName = "default"
    # Secrets and config maps whose keys become the worker's environment.
    secrets: list[DnsName] = []
    # The same, of secrets that need not exist.
    optional_secrets: list[DnsName] = []
    config_maps: list[DnsName] = []
    variables: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    gpu_resource: str = "nvidia.com/gpu"
    runtime_class: DnsName | None = None
    # Kueue's local queue; Jobs then start suspended, and Kueue admits them.
    queue: DnsName | None = None
    # Priority class of pods from each priority (0 to 100) on.
    priority_classes: dict[int, DnsName] = {}
    ttl_seconds: int = Field(3600, ge=0, description="how long an ended Job is kept")
    disk_gib: int = Field(10, ge=1, description="disk for spool and run directory of a run that names none")
    termination_seconds: int = Field(60, ge=1)


class RayPool(Pool):
    launcher: Literal["ray"]
    # Address of an existing cluster: host:port of its head, `auto`, or ray://host:port.
    address: str = "auto"
    namespace: str = "runspine"
    # The Python on the nodes that has runspine with its worker installed.
    python: str = "python"
    # A file on each node with RUNSPINE_NATS_URL and the other settings, one NAME=value per line.
    env_file: str | None = None
    variables: dict[str, str] = {}
    directory: str = "/tmp/runspine-workers"
    resources: dict[str, float] = {}


SlurmName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$", max_length=128)]


class SlurmPool(Pool):
    launcher: Literal["slurm"]
    # Slurm's own defaults count where one of these is not given.
    partition: SlurmName | None = None
    account: SlurmName | None = None
    qos: SlurmName | None = None
    reservation: SlurmName | None = None
    # Features that a node must have, such as "a100&nvme".
    constraint: str | None = Field(None, pattern=r"^[A-Za-z0-9_&|*,()\[\]!.:-]+$")
    # Kind of the GPUs of a run, such as gpu or gpu:a100.
    gpu_gres: SlurmName = "gpu"
    time_limit_minutes: int | None = Field(
        None, ge=1, description="longest time of a job; a run with limits.wall_seconds asks for less"
    )
    warning_seconds: int = Field(
        120, ge=10, le=3600, description="time before the end of a job at which its run writes a checkpoint"
    )
    # Further options of sbatch, such as --licenses=matlab.
    options: list[Annotated[str, Field(pattern=r"^--[a-z][a-z-]*(=.*)?$")]] = []
    poll_seconds: float = Field(5.0, ge=0.2, description="time between two calls of squeue")
    # The Python on the nodes that has runspine with its worker installed.
    python: str = "python3"
    # A file on each node with RUNSPINE_NATS_URL and the other settings, one NAME=value per line.
    env_file: str | None = None
    variables: dict[str, str] = {}
    # On each node: directories of workers and their output.
    directory: str = Field("/tmp/runspine-workers", pattern=r"^/[^%\n]*$")

    @field_validator("options")
    @classmethod
    def _are_free(cls, options: list[str]) -> list[str]:
        for option in options:
            if option.partition("=")[0] in OWN_OPTIONS:
                raise ValueError(f"{option}: the launcher sets this option itself")
        return options


# Options of sbatch that are not the pool's to set otherwise than by its fields.
OWN_OPTIONS = frozenset(
    [
        "--job-name",
        "--requeue",
        "--no-requeue",
        "--signal",
        "--output",
        "--error",
        "--open-mode",
        "--export",
        "--export-file",
        "--parsable",
        "--wrap",
        "--array",
        "--comment",
        "--partition",
        "--account",
        "--qos",
        "--reservation",
        "--constraint",
        "--gres",
        "--time",
        "--mem",
        "--cpus-per-task",
        "--ntasks",
        "--nodes",
        "--chdir",
        "--hold",
        "--wait",
        "--test-only",
    ]
)

AnyPool = Annotated[KubernetesPool | RayPool | SlurmPool, Field(discriminator="launcher")]


class Pools(_Strict):
    pools: dict[str, AnyPool] = Field(min_length=1)

    @field_validator("pools")
    @classmethod
    def _names(cls, pools: dict[str, Pool]) -> dict[str, Pool]:
        for name in pools:
            if not is_token(name):
                raise ValueError(f"{name!r}: use letters, digits, - and _ (at most 64)")
        return pools


def read_pools(path: Path) -> dict[str, KubernetesPool | RayPool | SlurmPool]:
    """Raises PoolsFileError."""
    try:
        given = yaml.safe_load(path.read_text())
        return TypeAdapter(Pools).validate_python(given).pools
    except OSError as error:
        raise PoolsFileError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise PoolsFileError(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        lines = [
            f"{path}: {'.'.join(map(str, found['loc'])) or 'file'}: {found['msg']}"
            for found in error.errors()
        ]
        raise PoolsFileError("\n".join(lines)) from None
