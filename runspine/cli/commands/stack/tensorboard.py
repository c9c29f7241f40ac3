"""`runspine tensorboard`: open runs in TensorBoard and keep them up to date."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click

from runspine.cli.commands.analysis.export import export_runs, stopped_by_signal, unique
from runspine.cli.errors import json_option
from runspine.cli.lookup.selection import select
from runspine.cli.ui.screen import echo, echo_json, has_ended, note
from runspine.errors import InvalidError, RunspineError
from runspine.rpc.trainer_client import Client
from runspine.sinks.catalogue import Options
from runspine.wire.v1.run_pb2 import Run

START_SECONDS = 60.0
RELOAD_SECONDS = 5
# TensorBoard keeps 1,000 points of a series by default.
MAX_POINTS = 10_000


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--group",
    "selections",
    multiple=True,
    metavar="KEY=VALUE[,…]",
    help="Runs with this env, algo, runner, project, name or label; repeatable.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1.  [default: a free one]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the event files.  [default: in the user's cache]",
)
@json_option
def tensorboard(
    runs: tuple[str, ...], selections: tuple[str, ...], port: int | None, out: Path | None, as_json: bool
) -> None:
    """Open runs in TensorBoard and follow those that are running, until Ctrl-C.

    \b
    runspine tensorboard RUN
    runspine tensorboard --group env=CartPole-v1
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise InvalidError(
            "the package tensorboard is missing; install it with: pip install 'runspine[sinks]'"
        )
    with Client() as client, stopped_by_signal() as stop:
        chosen = unique(select(client, runs, selections)[0])
        folder = out or _cache(client, chosen)
        with _filling(client, chosen, folder, stop), _serving(folder, port) as (url, process):
            _echo_address(url, folder, chosen, as_json)
            _until_over(process, stop)


def _echo_address(url: str, folder: Path, runs: list[Run], as_json: bool) -> None:
    if as_json:
        echo_json({"url": url, "folder": str(folder), "runs": [run.id for run in runs]})
        return
    echo(url)
    live = sum(not has_ended(run) for run in runs)
    follows = f", {live} of them running and followed" if live else ""
    note(f"{len(runs)} runs{follows}; event files in {folder}. Stop with Ctrl-C.")


def _cache(client: Client, runs: list[Run]) -> Path:
    """Cache folder of this set of runs: TensorBoard shows everything in a folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    names = "\n".join([client.endpoint.trainer, *sorted(run.id for run in runs)])
    return base / "runspine" / "tensorboard" / hashlib.sha256(names.encode()).hexdigest()[:16]


def _until_over(process: subprocess.Popen[bytes], stop: threading.Event) -> None:
    while not stop.wait(0.3):
        if process.poll() is not None:
            raise InvalidError(f"TensorBoard exited with code {process.returncode}")


@contextlib.contextmanager
def _filling(client: Client, runs: list[Run], folder: Path, stop: threading.Event) -> Iterator[None]:
    """Export the runs to the folder in a thread: stored data first, then new data."""

    def fill() -> None:
        try:
            export_runs(client, runs, "tensorboard", folder, Options(), True, stop, quiet=True)
        except RunspineError as error:
            note(f"following the runs failed: {error}")

    folder.mkdir(parents=True, exist_ok=True)
    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def _serving(folder: Path, port: int | None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run TensorBoard on loopback in its own session, so that Ctrl-C reaches only this process."""
    from runspine.embedded.processes import tethered

    with _reserved(port) as port:
        log_path = folder / "tensorboard.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                tethered(_command(folder, port), signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            _until_answers(process, port, log_path)
            yield f"http://127.0.0.1:{port}/", process
        finally:
            _end(process)


def _command(folder: Path, port: int) -> list[str]:
    return [
        sys.executable,
        "-m",
        "tensorboard.main",
        f"--logdir={folder}",
        "--host=127.0.0.1",
        f"--port={port}",
        f"--reload_interval={RELOAD_SECONDS}",
        f"--samples_per_plugin=scalars={MAX_POINTS}",
        # The fast loader is a separate process that would survive a kill.
        "--load_fast=false",
    ]


def _until_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    words = log.read_text(errors="replace").strip().splitlines()[-5:]
    raise InvalidError("TensorBoard did not start:\n" + "\n".join(words))


@contextlib.contextmanager
def _reserved(port: int | None) -> Iterator[int]:
    """The requested port, or a reserved one that no stack takes while TensorBoard loads."""
    if port is not None:
        _check_free(port)
        yield port
        return
    from runspine.embedded.ports import PortBook

    book = PortBook(Path("never-saved.json"), use_defaults=False)
    try:
        chosen = book.choose("tensorboard")
        book.release_all()
        yield chosen
    finally:
        book.close()


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InvalidError(f"--port {port}: cannot listen there: {error.strerror}") from error


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
