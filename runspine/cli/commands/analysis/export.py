"""`runspine export`: write runs in the format of another tool, before, during or after the run."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find
from runspine.cli.ui.screen import echo, echo_json, is_live, note
from runspine.domain.tracking import LABEL, label_after_export
from runspine.errors import RunspineError
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.sinks.catalogue import NAMES, Options, make_sink
from runspine.sinks.pump import ExportSummary, Pump, exported_run
from runspine.spec.plain import to_plain
from runspine.text.values import escaped, number
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import GetResponse

# Runs followed concurrently; each needs a thread and two streams.
MAX_FOLLOWED = 64


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--to", "target", type=click.Choice(NAMES), required=True, help="Output format.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    required=True,
    help="Output folder.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Continue until the runs have ended; waits for queued runs."
)
@click.option("--steps", "with_steps", is_flag=True, help="Include every step (csv, parquet).")
@click.option("--online", is_flag=True, help="Upload to W&B, with WANDB_API_KEY (wandb).")
@click.option("--dataset-id", default="", metavar="ID", help="Dataset id (minari, one run).")
@click.option(
    "--resimulate", is_flag=True, help="Simulate episodes again for observations that were not kept (minari)."
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
    """Export runs as TensorBoard event files, W&B runs, Minari datasets, CSV or Parquet.

    An export contains everything from the first batch on, whenever it begins. Running it again
    continues where it stopped and writes nothing twice.

    \b
    runspine export RUN --to tensorboard --out tb
    runspine export RUN --to wandb --out wb --follow && wandb sync wb/wandb/offline-run-*
    """
    options = Options(with_steps, online, dataset_id, resimulate)
    _check(target, options, runs)
    with Client() as client, stopped_by_signal() as stop:
        found = unique(find(client, run).run for run in runs)
        summaries = export_runs(client, found, target, out, options, follow, stop, quiet=as_json)
        for run, _ in summaries:
            write_record(out, client.get(run.id))
    if as_json:
        echo_json({"to": target, "exports": [asdict(one) | {"run_id": run.id} for run, one in summaries]})
        return
    for run, one in summaries:
        echo(f"{escaped(run.name)}: {summary_text(one)}")
        echo(f"  {escaped(one.where)}", "dim")


def write_record(out: Path, found: GetResponse) -> None:
    """What was asked and what it ran with, next to the data: spec, code, packages, hardware, attempts."""
    draft, path = out / f".{found.run.id}.tmp", out / f"{found.run.id}.run.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(to_plain(found), indent=1, sort_keys=True) + "\n")
        draft.replace(path)
    except OSError as error:
        raise RunspineError(f"{error.filename}: {error.strerror}") from error


def _check(target: str, options: Options, runs: Sequence[str]) -> None:
    if options.with_steps and target not in ("csv", "parquet"):
        raise click.UsageError(f"--steps is for csv and parquet; {target} selects its own data")
    if options.online and target != "wandb":
        raise click.UsageError("--online is for --to wandb")
    if options.resimulate and target != "minari":
        raise click.UsageError("--resimulate is for --to minari")
    if options.dataset_id and (target != "minari" or len(runs) > 1):
        raise click.UsageError("--dataset-id is for --to minari with one run")


def unique(runs: Any) -> list[Run]:
    """Remove duplicates, keeping the order."""
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
) -> list[tuple[Run, ExportSummary]]:
    """Export the runs, concurrently while following."""
    if follow and len(runs) > MAX_FOLLOWED:
        raise click.UsageError(f"{len(runs)} runs are too many to follow; the limit is {MAX_FOLLOWED}")

    def one(run: Run) -> tuple[Run, ExportSummary]:
        exported = exported_run(run)
        report = partial(_record_address, client, run.id)
        sink = make_sink(target, out, exported, TelemetryClient(client), options, report)
        pump = Pump(client, exported, sink, on_progress=_progress_callback(run, quiet), stop=stop)
        return run, pump.run(follow=follow)

    if not follow or len(runs) == 1:
        return [one(run) for run in runs if not stop.is_set()]
    with ThreadPoolExecutor(len(runs)) as together:
        asked = [together.submit(one, run) for run in runs]
        try:
            return [answer.result() for answer in asked]
        except BaseException:
            stop.set()  # a failed export stops the others, which keep what they have
            raise


def _record_address(client: Client, run_id: str, address: str) -> None:
    """Set the label by which others find the W&B run. An export does not fail for it."""
    try:
        known = client.get(run_id).run.labels.get(LABEL, "")
        if (label := label_after_export(known, address)) != known:
            client.set_labels(run_id, {LABEL: label})
    except RunspineError as error:
        note(f"notice: the label {LABEL} of {run_id} was not set: {escaped(str(error))}")


def summary_text(summary: ExportSummary) -> str:
    """Summary of an export in one line."""
    if summary.nothing_new:
        return "already up to date"
    counts = [
        (summary.points, "points"),
        (summary.episodes, "episodes"),
        (summary.steps, "steps"),
        (summary.videos, "videos"),
        (summary.left_out, "videos left out (too large, too many, damaged or of another format)"),
    ]
    parts = [f"{number(count)} {word}" for count, word in counts if count]
    return (", ".join(parts) or "nothing yet") + ("" if summary.done else "; the run continues")


@contextmanager
def stopped_by_signal() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets, so that a follow ends and keeps what it has."""
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


def _progress_callback(run: Run, quiet: bool) -> Any:
    if quiet or not is_live(False):
        return lambda summary: None
    return lambda summary: note(f"\r\x1b[K{escaped(run.name)}: {summary_text(summary)}\x1b[A")
