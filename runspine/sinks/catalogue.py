"""Sinks by name; each is imported with its packages on use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runspine.errors import InvalidError
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.sinks.port import ExportedRun, Sink
from runspine.sinks.pump import env_of, resets_after
from runspine.sinks.resimulation import resimulated_observations

NAMES = ("tensorboard", "wandb", "minari", "csv", "parquet")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `runspine export`."""

    with_steps: bool = False
    online: bool = False
    dataset_id: str = ""
    resimulate: bool = False


def _unreported(address: str) -> None:
    """The default for exports whose address nobody records."""


def make_sink(
    name: str,
    out: Path,
    exported: ExportedRun,
    reader: TelemetryClient,
    options: Options,
    report: Callable[[str], None] = _unreported,
) -> Sink:
    """`report` is called with the address of an export at W&B, with an empty one when it is offline."""
    try:
        if name == "wandb":
            return _make_wandb(out, exported, options, report)
        return _make(name, out, exported, reader, options)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "runspine":
            raise
        raise InvalidError(
            f"--to {name} needs the package {package}; install it with: pip install 'runspine[sinks]'"
        ) from error


def _make_wandb(out: Path, exported: ExportedRun, options: Options, report: Callable[[str], None]) -> Sink:
    import wandb  # noqa: F401 - as for minari

    from runspine.sinks.wandb_run import WandbSink

    return WandbSink(out, exported, online=options.online, report=report)


def _make(name: str, out: Path, exported: ExportedRun, reader: TelemetryClient, options: Options) -> Sink:
    match name:
        case "tensorboard":
            from runspine.sinks.event_files import EventFiles

            return EventFiles(out, exported)
        case "csv":
            from runspine.sinks.csv_files import CsvFiles

            return CsvFiles(out, exported, with_steps=options.with_steps)
        case "parquet":
            from runspine.sinks.parquet_files import ParquetFiles

            return ParquetFiles(out, exported, with_steps=options.with_steps)
        case "minari":
            import h5py  # noqa: F401 - fails here when missing, not during the export

            from runspine.sinks.minari_dataset import MinariDataset

            resets = partial(resets_after, reader, exported.run_id)
            made = partial(env_of, reader, exported.run_id)
            again = partial(resimulated_observations, reader, exported.run_id) if options.resimulate else None
            return MinariDataset(out, exported, resets, made, dataset_id=options.dataset_id, resimulate=again)
    raise InvalidError(f"unknown sink {name!r}")
