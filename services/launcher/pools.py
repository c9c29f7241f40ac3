"""The file that says which pools are launched where; every field is checked and named when it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from runspine.log.subjects import is_token

DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


class WrongPools(Exception):
    """The file cannot be used; the message names each field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Pool(_Strict):
    limit: int = Field(100, ge=1, description="seats at the same time, waiting or running")
    grace_seconds: float = Field(120, ge=0, description="time for uploads after a run has ended")
    cpus: float = Field(1.0, gt=0, description="cores of a run that names none")
    memory_mib: int = Field(2048, ge=64, description="memory of a run that names none")
    # What the worker itself needs beside the trainer.
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
    config_maps: list[DnsName] = []
    variables: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    gpu_resource: str = "nvidia.com/gpu"
    runtime_class: DnsName | None = None
    # Kueue's local queue; Jobs begin suspended then, and Kueue admits them.
    queue: DnsName | None = None
    # From which priority on (0 to 100) a pod gets this class.
    priority_classes: dict[int, DnsName] = {}
    ttl_seconds: int = Field(3600, ge=0, description="how long an ended Job can be looked at")
    disk_gib: int = Field(10, ge=1, description="disk for spool and run directory of a run that names none")
    termination_seconds: int = Field(60, ge=1)


class RayPool(Pool):
    launcher: Literal["ray"]
    # A cluster that exists: host:port of its head, `auto`, or ray://host:port.
    address: str = "auto"
    namespace: str = "runspine"
    # The Python of the nodes that has runspine with its worker.
    python: str = "python"
    # A file on each node with RUNSPINE_NATS_URL and its companions, one NAME=value a line.
    env_file: str | None = None
    variables: dict[str, str] = {}
    directory: str = "/tmp/runspine-workers"
    resources: dict[str, float] = {}


AnyPool = Annotated[KubernetesPool | RayPool, Field(discriminator="launcher")]


class Pools(_Strict):
    pools: dict[str, AnyPool] = Field(min_length=1)

    @field_validator("pools")
    @classmethod
    def _names(cls, pools: dict[str, Pool]) -> dict[str, Pool]:
        for name in pools:
            if not is_token(name):
                raise ValueError(f"{name!r}: use letters, digits, - and _ (at most 64)")
        return pools


def read_pools(path: Path) -> dict[str, KubernetesPool | RayPool]:
    """Raises WrongPools."""
    try:
        given = yaml.safe_load(path.read_text())
        return TypeAdapter(Pools).validate_python(given).pools
    except OSError as error:
        raise WrongPools(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise WrongPools(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        lines = [
            f"{path}: {'.'.join(map(str, flaw['loc'])) or 'file'}: {flaw['msg']}" for flaw in error.errors()
        ]
        raise WrongPools("\n".join(lines)) from None
