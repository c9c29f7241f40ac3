"""`runspine export`: runs in the format of another tool, at any time of their life."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from runspine.cli.ask import find
from runspine.cli.edge import json_option
from runspine.cli.screen import is_live, note, say, say_json
from runspine.cli.text import escaped, number
from runspine.client import Client
from runspine.sinks.catalogue import NAMES, Options, make_sink
from runspine.sinks.pump import Pump, Told, subject_of
from runspine.telemetry_reader import TelemetryReader
from runspine.wire.v1.run_pb2 import Run

# Runs that are followed side by side: each holds a thread and two streams.
MOST_FOLLOWED = 64


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--to", "target", type=click.Choice(NAMES), required=True, help="The format.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write to."
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the runs have ended; waits for queued ones.")
@click.option("--steps", "with_steps", is_flag=True, help="Every single step as well (csv, parquet).")
@click.option("--online", is_flag=True, help="Send to W&B as it comes, with WANDB_API_KEY (wandb).")
@click.option("--dataset-id", default="", metavar="ID", help="Name of the dataset (minari, one run).")
@click.option(
    "--resimulate", is_flag=True, help="Play episodes again for observations that were not kept (minari)."
)
@json_option
def export(
    runs: tuple[str, ...],
    target: str,
    out: Path,
    follow: bool,
    with_steps: bool,
    online: bool,
    dataset_id: str,
    resimulate: bool,
    as_json: bool,
) -> None:
    """Write runs as TensorBoard event files, a W&B run, a Minari dataset, CSV or Parquet.

    Everything from the first batch on is written, whenever the export begins. Run it again to go on
    where it stopped: nothing is written twice.

    \b
    runspine export RUN --to tensorboard --out tb
    runspine export RUN --to wandb --out wb --follow && wandb sync wb/wandb/offline-run-*
    """
    options = Options(with_steps, online, dataset_id, resimulate)
    _check(target, options, runs)
    with Client() as client, stopped_by_signal() as stop:
        found = unique(find(client, run).run for run in runs)
        told = export_runs(client, found, target, out, options, follow, stop, quiet=as_json)
    if as_json:
        say_json({"to": target, "exports": [asdict(one) | {"run_id": run.id} for run, one in told]})
        return
    for run, one in told:
        say(f"{escaped(run.name)}: {words(one)}")
        say(f"  {escaped(one.where)}", "dim")


def _check(target: str, options: Options, runs: Sequence[str]) -> None:
    if options.with_steps and target not in ("csv", "parquet"):
        raise click.UsageError(f"--steps is for csv and parquet; {target} takes what it needs")
    if options.online and target != "wandb":
        raise click.UsageError("--online is for --to wandb")
    if options.resimulate and target != "minari":
        raise click.UsageError("--resimulate is for --to minari")
    if options.dataset_id and (target != "minari" or len(runs) > 1):
        raise click.UsageError("--dataset-id is for --to minari with one run")


def unique(runs: Any) -> list[Run]:
    """In the order given; one that is named twice counts once."""
    return list({run.id: run for run in runs}.values())


def export_runs(
    client: Client,
    runs: Sequence[Run],
    target: str,
    out: Path,
    options: Options,
    follow: bool,
    stop: threading.Event,
    *,
    quiet: bool = False,
) -> list[tuple[Run, Told]]:
    """All of them; side by side while they are followed."""
    if follow and len(runs) > MOST_FOLLOWED:
        raise click.UsageError(f"{len(runs)} runs are more than can be followed at once ({MOST_FOLLOWED})")

    def one(run: Run) -> tuple[Run, Told]:
        subject = subject_of(run)
        sink = make_sink(target, out, subject, TelemetryReader(client), options)
        pump = Pump(client, subject, sink, tell=_teller(run, quiet), stop=stop)
        return run, pump.run(follow=follow)

    if not follow or len(runs) == 1:
        return [one(run) for run in runs if not stop.is_set()]
    with ThreadPoolExecutor(len(runs)) as together:
        asked = [together.submit(one, run) for run in runs]
        try:
            return [answer.result() for answer in asked]
        except BaseException:
            stop.set()  # one that failed ends the others, each with what it has
            raise


def words(told: Told) -> str:
    """What was written, in a line."""
    if told.nothing_new:
        return "all of it was there already"
    counts = [(told.points, "points"), (told.episodes, "episodes"), (told.steps, "steps")]
    parts = [f"{number(count)} {word}" for count, word in counts if count]
    return (", ".join(parts) or "nothing yet") + ("" if told.done else "; the run goes on")


@contextmanager
def stopped_by_signal() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM end a follow in good order: what has come by then is kept."""
    stop = threading.Event()

    def handle(_: int, __: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt  # asked twice
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number_, action in before.items():
            signal.signal(number_, action)


def _teller(run: Run, quiet: bool) -> Any:
    if quiet or not is_live(False):
        return lambda told: None
    return lambda told: note(f"\r\x1b[K{escaped(run.name)}: {words(told)}\x1b[A")
