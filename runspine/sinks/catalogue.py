"""The sinks there are, by name, each loaded with its packages when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runspine.errors import Invalid
from runspine.sinks.port import Sink, Subject
from runspine.sinks.pump import env_of, resets_after
from runspine.sinks.resimulation import observed_again
from runspine.telemetry_reader import TelemetryReader

NAMES = ("tensorboard", "wandb", "minari", "csv", "parquet")


@dataclass(frozen=True, slots=True)
class Options:
    with_steps: bool = False
    online: bool = False
    dataset_id: str = ""
    resimulate: bool = False


def make_sink(name: str, out: Path, subject: Subject, reader: TelemetryReader, options: Options) -> Sink:
    try:
        return _make(name, out, subject, reader, options)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "runspine":
            raise
        raise Invalid(
            f"--to {name} needs the package {package}; install it with: pip install 'runspine[sinks]'"
        ) from error


def _make(name: str, out: Path, subject: Subject, reader: TelemetryReader, options: Options) -> Sink:
    match name:
        case "tensorboard":
            from runspine.sinks.event_files import EventFiles

            return EventFiles(out, subject)
        case "csv":
            from runspine.sinks.csv_files import CsvFiles

            return CsvFiles(out, subject, with_steps=options.with_steps)
        case "parquet":
            from runspine.sinks.parquet_files import ParquetFiles

            return ParquetFiles(out, subject, with_steps=options.with_steps)
        case "wandb":
            import wandb  # noqa: F401 - so that it is missed here and not half-way

            from runspine.sinks.wandb_run import WandbRun

            return WandbRun(out, subject, online=options.online)
        case "minari":
            import h5py  # noqa: F401 - as above

            from runspine.sinks.minari_dataset import MinariDataset

            resets = partial(resets_after, reader, subject.run_id)
            made = partial(env_of, reader, subject.run_id)
            again = partial(observed_again, reader, subject.run_id) if options.resimulate else None
            return MinariDataset(out, subject, resets, made, dataset_id=options.dataset_id, resimulate=again)
    raise Invalid(f"no sink is called {name!r}")
