"""Running the script: as `__main__`, with its own arguments, and with us around it."""

from __future__ import annotations

import _thread
import argparse
import builtins
import glob
import os
import signal
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path
from types import ModuleType

from runspine.launcher import children, envs, hooks, models, movie, tracking, videos, writers
from runspine.launcher.api import NATIVE, OLD, api_of
from runspine.launcher.record import EVALUATION, TRAINING, record, say

INTERRUPTED = 130
# How soon a signal that came at a bad moment is looked at again.
AGAIN_SECONDS = 0.002


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
    code = execute(script, asked.arguments)
    # A process that the script has forked off may come back here, too.
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
    """Patch what the script will import, and listen for the signal to end."""
    hooks.install(
        {
            "gymnasium": partial(envs.patch, old_api=api == OLD),
            "torch": models.patch,
            "torch.utils.tensorboard.writer": writers.patch,
            "tensorboardX.writer": writers.patch,
        }
    )
    tracking.install()
    movie.install()
    signal.signal(signal.SIGTERM, stop)


def stop(number: int, frame: object) -> None:
    if record.run.saying:
        # What is half said would be lost. Not by threading.Thread: the script may be in the middle of that.
        _thread.start_new_thread(again, (number,))
        return
    if record.child:
        children.end_on_signal(number, frame)
        return
    # Once is enough: what is said at the end must not be cut short.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def again(number: int) -> None:
    time.sleep(AGAIN_SECONDS)
    # To the thread that handles it: elsewhere it would not wake a call that waits.
    signal.pthread_kill(threading.main_thread().ident or 0, number)


def execute(script: Path, arguments: list[str]) -> int:
    """The script's exit code."""
    module = ModuleType("__main__")
    module.__file__ = str(script)
    vars(module)["__builtins__"] = builtins
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    sys.argv = [str(script), *arguments]
    try:
        # Nothing of this file's own `from __future__` may reach the script.
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
    """As Python does it: nothing is 0, a text is an error."""
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    sys.stderr.write(f"{given}\n")
    return 1


def close(code: int) -> None:
    """Keep what the script leaves behind, and say what was recorded."""
    if not record.run.active:
        return
    try:
        children.end_all()
        record.gather_tallies()
        record.run.flush()
        if code in (0, 128 + signal.SIGTERM):
            models.save_networks()
        sweep()
        record.tidy()
    except Exception:  # noqa: BLE001 - the script has ended well or not; we do not change that
        traceback.print_exc()
    for line in closing_words(code):
        say(line)
    record.run.finish()


def sweep() -> None:
    """Files that came about by other ways than those we follow."""
    root = glob.escape(str(record.run.dir))
    for path in sorted(glob.glob(f"{root}/**/*{models.SUFFIX}", recursive=True)):
        if os.path.realpath(path) not in record.announced:
            models.announce(path, saved_by="script", modules={})
    for path in sorted(glob.glob(f"{root}/**/*.mp4", recursive=True)):
        videos.announce(path)
    writers.announce_event_files()


def closing_words(code: int) -> list[str]:
    """What was recorded, and what should worry whoever reads it."""
    steps, episodes = record.training_steps, record.episodes[TRAINING]
    words = [f"recorded {steps:,} steps, {episodes:,} episodes, {record.metrics:,} metrics"]
    if record.episodes[EVALUATION]:
        words.append(
            f"and of the script's own evaluation {record.evaluation_steps:,} steps,"
            f" {record.episodes[EVALUATION]:,} episodes (ids eval-…)"
        )
    if steps < record.told_step:
        words.append(
            f"WARNING: the script says it reached step {record.told_step:,}, but {steps:,} steps were seen:"
            " its envs are not made by gymnasium.make, or their processes were killed"
        )
    elif code == 0 and not episodes:
        words.append("WARNING: no episode has ended: train for longer, or look at the env")
    if record.run.dropped:
        words.append(
            f"WARNING: {record.run.dropped:,} lines could not be recorded: {record.run.pipe.trouble}"
        )
    return words
