"""Runs a script as `__main__` with its own arguments, instrumented."""

from __future__ import annotations

import _thread
import argparse
import builtins
import glob
import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from functools import partial
from pathlib import Path
from types import ModuleType

from runspine.domain.downloads import is_download
from runspine.instrument import children, envs, hooks, models, movie, videos, writers
from runspine.instrument.api import NATIVE, OLD, api_of
from runspine.instrument.record import EVALUATION, TRAINING, echo, record
from runspine.instrument.startup_variables import startup_variables
from runspine.instrument.trackers import hooking

INTERRUPTED = 130
TYRO_WARNING = r"The field .* is annotated with type .* but the default value `?None`? has"
# After which a signal that came within a write is sent again.
RETRY_SECONDS = 0.002


def main(words: list[str]) -> int:
    asked = parser().parse_args(words)
    script: Path = asked.script
    if not script.is_file():
        parser().error(f"script {script} does not exist")
    record.script = str(script.resolve())
    sys.path[:0] = [str(script.resolve().parent), *(str(Path(path).resolve()) for path in asked.path)]
    api = asked.api if asked.api != "auto" else api_of(script.read_text(encoding="utf-8", errors="replace"))
    install(api)
    children.follow(api)
    if record.run.active:
        # Processes that the script starts by other means than multiprocessing.
        os.environ.update(startup_variables(api, os.environ.get("PYTHONPATH", "")))
    code = execute(script, asked.arguments)
    # A process that the script has forked may return here, too.
    if not record.child:
        close(code)
    return code


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runspine.launcher", description="Run a script as it is, and record what it does."
    )
    parser.add_argument("--path", action="append", default=[], help="a folder the script imports from")
    parser.add_argument(
        "--api",
        choices=("auto", OLD, NATIVE),
        default="auto",
        help="the Gymnasium the script was written for; auto: by the names it uses",
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    return parser


def install(api: str) -> None:
    """Patch the modules that the script will import, and handle SIGTERM."""
    hooks.install(
        {
            "gymnasium": partial(envs.patch, old_api=api == OLD),
            "torch": models.patch,
            "envpool": envs.patch_envpool,
            **writers.PATCHES,
            **hooking.patches(os.environ),
        }
    )
    # CleanRL annotates `wandb_entity: str = None`: Tyro warns on every start, and passes the value on.
    warnings.filterwarnings("ignore", message=TYRO_WARNING, category=UserWarning)
    hooking.install()
    movie.install()
    signal.signal(signal.SIGTERM, stop)


def stop(number: int, frame: object) -> None:
    if record.run.writing:
        send_later(number)
        return
    if record.child:
        children.end_on_signal(number, frame)
        return
    # Only once: the closing lines must not be interrupted.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def send_later(number: int) -> None:
    """Retry a signal: a line in progress would be lost."""
    # Not by threading.Thread: the script may be starting one.
    _thread.start_new_thread(send_again, (number,))


def send_again(number: int) -> None:
    time.sleep(RETRY_SECONDS)
    # To the main thread, which handles it: elsewhere it would not interrupt a blocking call.
    signal.pthread_kill(threading.main_thread().ident or 0, number)


def execute(script: Path, arguments: list[str]) -> int:
    """Run the script; return its exit code."""
    module = ModuleType("__main__")
    module.__file__ = str(script)
    vars(module)["__builtins__"] = builtins
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    sys.argv = [str(script), *arguments]
    try:
        # The `from __future__` of this file must not apply to the script.
        exec(compile(script.read_bytes(), str(script), "exec", dont_inherit=True), vars(module))
    except SystemExit as ended:
        return exit_code(ended.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:  # noqa: BLE001 - the edge of the script, which may raise anything
        # Without our own frame at the top.
        traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        return 1
    return 0


def exit_code(given: object) -> int:
    """Exit code as Python computes it: None is 0, a text is an error."""
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    sys.stderr.write(f"{given}\n")
    return 1


def close(code: int) -> None:
    """Upload what the script leaves behind, and print what was recorded."""
    if not record.run.active:
        return
    try:
        children.end_all()
        record.gather_tallies()
        record.run.flush()
        record.report_progress(math.inf)
        models.files.release(final=True)
        if code in (0, 128 + signal.SIGTERM):
            models.save_networks()
        sweep()
        record.tidy()
    except Exception:  # noqa: BLE001 - the outcome of the script must not change
        traceback.print_exc()
    for line in closing_lines(code):
        echo(line)
    record.run.finish()


def sweep() -> None:
    """Upload files that were not written through patched functions."""
    root = glob.escape(str(record.run.dir))
    for path in sorted(glob.glob(f"{root}/**/*{models.SUFFIX}", recursive=True)):
        fetched = is_download(os.path.relpath(path, record.run.dir))
        if not fetched and os.path.realpath(path) not in record.announced:
            models.announce(path, saved_by="script", modules={})
    for path in sorted(glob.glob(f"{root}/**/*.mp4", recursive=True)):
        videos.announce(path)
    writers.announce_event_files()


def closing_lines(code: int) -> list[str]:
    """Lines that state what was recorded, with warnings."""
    steps, episodes = record.training_steps, record.episodes[TRAINING]
    words = [f"recorded {steps:,} steps, {episodes:,} episodes, {record.metrics:,} metrics"]
    if record.episodes[EVALUATION]:
        words.append(
            f"and of the script's own evaluation {record.evaluation_steps:,} steps,"
            f" {record.episodes[EVALUATION]:,} episodes (ids eval-…)"
        )
    if steps < record.logged_step:
        words.append(
            f"WARNING: the script logged step {record.logged_step:,}, but {steps:,} steps were seen:"
            " its envs are not made by gymnasium.make, or their processes were killed"
        )
    elif code == 0 and not episodes:
        words.append("WARNING: no episode has ended: train for longer, or look at the env")
    if record.run.dropped:
        words.append(
            f"WARNING: {record.run.dropped:,} lines could not be recorded: {record.run.pipe.trouble}"
        )
    return words
