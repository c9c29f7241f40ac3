"""Settings of the worker, read from its environment."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from runspine.domain.defaults import DEFAULT_POOL
from runspine.eventlog.subjects import is_token
from runspine.play.llm_settings import MIN_KEY_LENGTH, checked_options, checked_url
from runspine.settings import ServiceSettings
from runspine.wire.v1.spec_pb2 import Limits

REQUIRE, OFF = "require", "off"
DEFAULT_SECRETS = "WANDB_*,HF_*,XMPP_PASSWORD"
SANDBOXES = ("auto", REQUIRE, OFF, "bubblewrap", "namespaces")


def own_name() -> str:
    """The host name, with characters that a subject does not allow replaced."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname())[:64].strip("-") or "worker"


def own_cores() -> int:
    """Number of cores of the machine."""
    return os.cpu_count() or 1


def split_list(text: str) -> tuple[str, ...]:
    """The entries of a comma separated list."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


class WorkerSettings(ServiceSettings):
    """Settings of one worker process."""

    worker_id: str = Field(
        default_factory=own_name, description="name of this worker, one for each directory"
    )
    worker_dir: Path = Field(Path("var/worker"), description="where journal and run directories live")
    worker_slots: int = Field(default_factory=own_cores, ge=1, description="runs at the same time")
    worker_pools: str = Field(DEFAULT_POOL, description="pools served, first one first, comma separated")
    worker_only_run: str = Field(
        "", description="serve this run alone, then end: for workers that a launcher starts"
    )
    worker_uploads: Literal["signed", "own"] = Field(
        "signed",
        description="how artifacts are written to S3: signed, each request by the artifacts service; "
        "own, with this worker's key, which must be one that may write them",
    )
    worker_engine: Literal["", "slurm"] = Field(
        "", description="engine that ends this worker and is asked why: slurm, in a job that a launcher made"
    )
    beat_seconds: float = Field(1.0, gt=0, description="time between heartbeats")
    progress_seconds: float = Field(60.0, gt=0, description="minimum time between progress facts of a run")
    system_seconds: float = Field(
        10.0,
        ge=0,
        description="time between samples of what a run uses (CPU, memory, disk, network, GPUs); longer "
        "where they would take 0.1 % of a core; 0: none",
    )
    stall_seconds: float = Field(
        900.0,
        ge=0,
        description="how long a trainer is without output, telemetry and CPU time before its run is marked "
        "as stalled, with the stacks of its processes in its log; 0: never. `limits.stall_seconds` ends it",
    )
    machine_seconds: float = Field(
        10.0, gt=0, description="time between measurements of the machine: disk and GPUs, for heartbeats"
    )
    keep_run_hours: float = Field(
        168.0,
        ge=0,
        description="hours for which the directory of an ended run is kept on this worker's disk, once "
        "everything of it is stored; 0: none, inf: for ever",
    )
    keep_runs_mib: float = Field(
        20_000,
        ge=0,
        description="directories of ended runs kept on this worker's disk, in MiB; then the one that ended "
        "first is removed; inf: no limit",
    )
    sweep_seconds: float = Field(
        300.0, gt=0, description="time between sweeps, which measure and remove directories of runs"
    )
    upload_wait: float = Field(
        60.0, ge=0, description="longest time a run's end waits for its checkpoints to be in S3"
    )
    checkpoint_patience: float = Field(
        30.0,
        ge=0,
        description="seconds that a working S3 must fail to return a checkpoint before it counts as lost",
    )
    reserve_after: float = Field(
        300.0, ge=0, description="seconds a run waits for capacity before smaller ones wait for it"
    )
    worker_gpus: str = Field(
        "", description="GPUs to allocate: a number, or ids, comma separated; all when empty"
    )
    runner_python: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict, description="the Python of each runner, as a JSON map of name to path"
    )
    spool_mib: float = Field(
        2048,
        gt=0,
        description="telemetry kept on disk while the log is unavailable, in MiB; then trainers wait",
    )
    dataset_cache_mib: float = Field(
        20_480, ge=0, description="datasets kept on disk for the next run, in MiB; then the oldest is evicted"
    )
    code_cache_mib: float = Field(
        2048,
        ge=0,
        description="code of runs kept on disk for the next run, in MiB; then the oldest is evicted",
    )
    virtualenv_dir: Path | None = Field(
        None,
        description="where virtualenvs of runs are kept, a folder of this user alone, which workers of one "
        "host may share; in the worker's directory when empty",
    )
    virtualenv_cache_mib: float = Field(
        20_480,
        ge=0,
        description="virtualenvs of runs and downloaded packages kept on disk, in MiB; then the one that was "
        "not used for longest is evicted",
    )
    virtualenv_build_seconds: float = Field(
        1800.0, gt=0, description="longest time to install the packages of a run"
    )
    package_indexes: str = Field(
        "", description="addresses of the indexes of packages, comma separated; PyPI when empty"
    )
    package_wheels: str = Field(
        "",
        description="folders with wheels, absolute and comma separated, searched in addition to the indexes",
    )
    package_offline: bool = Field(
        False, description="install packages from the folders with wheels alone, without any index"
    )
    torch_index: str = Field(
        "",
        description="index of torch for this worker's GPUs; none: the same as of other packages; when empty "
        "PyTorch's, for the driver that is found, or for the CPU, unless RUNSPINE_PACKAGE_INDEXES is set",
    )
    worker_sandbox: str = Field(
        "auto",
        description="sandbox of trainers: auto (where the machine allows one), require (a worker that has "
        "none does not start), bubblewrap or namespaces (this one is required), off",
    )
    worker_network: Literal["open", "none"] = Field(
        "open", description="network of sandboxed trainers: none leaves every trainer without one"
    )
    sandbox_paths: str = Field(
        "",
        description="further absolute paths that sandboxed trainers may read, comma separated; with :rw "
        "at its end, write to",
    )
    sandbox_hidden: str = Field(
        "",
        description="absolute paths that no sandboxed trainer sees, also in a folder that it may read, comma "
        "separated; the worker's own directory always is one",
    )
    worker_processes: int = Field(
        4096,
        ge=0,
        description="most processes and threads of one run, whatever its spec asks for; 0: no limit",
    )
    worker_disk_mib: int = Field(
        0,
        ge=0,
        description="most that one run may write into its directory, in MiB, whatever its spec asks for; "
        "0: no limit",
    )
    worker_secrets: str = Field(
        DEFAULT_SECRETS,
        description="variables of the worker's environment that a run may ask for under `secrets`, comma "
        "separated; * stands for any characters",
    )
    worker_attach: bool = Field(
        True,
        description="whether `runspine attach` may open terminals next to trainers, in their sandboxes",
    )
    llm_url: str = Field(
        "",
        description="language model for play sessions: base address of an OpenAI-compatible API, such as "
        "http://127.0.0.1:11434/v1; no actor llm when empty",
    )
    llm_model: str = Field("", description="its model, unless a session names one (llm:MODEL)")
    llm_key: SecretStr = Field(
        SecretStr(""), description="its key; sent to that address alone, never recorded"
    )
    llm_timeout: float = Field(
        30.0, gt=0, le=600, description="seconds to wait for an answer of it, at most three times"
    )
    llm_options: str = Field("", description='further fields of each request, as JSON: {"temperature": 0}')
    wandb_proxy: bool = Field(
        False,
        description="send every run through WANDB_VPN_HTTP_PROXY and WANDB_VPN_HTTPS_PROXY of the worker's "
        "environment; otherwise only runs that ask for it",
    )
    drain_seconds: float = Field(20.0, gt=0, description="longest time a stopping worker waits for the log")

    @property
    def pools(self) -> list[str]:
        """The pools in the order in which they are served."""
        return [pool.strip() for pool in self.worker_pools.split(",") if pool.strip()]

    @property
    def engine_signal_seconds(self) -> float:
        """How much later than a trainer's end the worker's own signal may be handled: Slurm signals every
        process of a job."""
        return 1.0 if self.worker_engine else 0.0

    @property
    def most_limits(self) -> Limits:
        """What no run may exceed."""
        return Limits(processes=self.worker_processes, disk_mib=self.worker_disk_mib)

    @field_validator("runner_python", mode="before")
    @classmethod
    def _is_json(cls, given: object) -> object:
        try:
            return json.loads(given) if isinstance(given, str) else given
        except ValueError as error:
            raise ValueError(f'{given!r} is not JSON such as {{"sb3": "/path/to/python"}}') from error

    @field_validator("worker_sandbox", mode="before")
    @classmethod
    def _is_sandbox(cls, given: object) -> str:
        word = {"true": REQUIRE, "1": REQUIRE, "false": OFF, "0": OFF}.get(
            str(given).lower(), str(given).lower()
        )
        if word not in SANDBOXES:
            raise ValueError(f"{given!r}: choose one of {', '.join(SANDBOXES)}")
        return word

    @field_validator("virtualenv_dir", mode="before")
    @classmethod
    def _is_folder(cls, given: object) -> object:
        if given and not str(given).startswith("/"):
            raise ValueError(f"{str(given)!r} is not an absolute path")
        return given or None

    @field_validator("package_indexes", "torch_index")
    @classmethod
    def _are_addresses(cls, addresses: str) -> str:
        for address in split_list(addresses):
            if not address.startswith(("https://", "http://", "file://")) and address != "none":
                raise ValueError(f"{address!r} is not an address such as https://pypi.org/simple")
        return addresses

    @field_validator("sandbox_paths", "sandbox_hidden", "package_wheels")
    @classmethod
    def _are_absolute(cls, paths: str) -> str:
        for path in split_list(paths):
            if not path.startswith("/"):
                raise ValueError(f"{path!r} is not an absolute path")
        return paths

    @field_validator("llm_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        return checked_url(url) if url else url

    @field_validator("llm_options")
    @classmethod
    def _are_options(cls, options: str) -> str:
        checked_options(options or "{}")
        return options

    @field_validator("llm_key")
    @classmethod
    def _can_be_redacted(cls, key: SecretStr) -> SecretStr:
        if 0 < len(key.get_secret_value()) < MIN_KEY_LENGTH:
            raise ValueError(f"shorter than {MIN_KEY_LENGTH} characters: it could not be kept out of logs")
        return key

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
