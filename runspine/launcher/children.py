"""Processes that the script starts: they are recorded like the script itself.

Forked ones inherit everything. Spawned ones begin with an empty interpreter and without the worker's
descriptor: both are given to them here.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from runspine.launcher import importable
from runspine.launcher.record import record

LONGEST_END = 2.0
# Programs that multiprocessing starts for the script; its resource tracker is not one of them.
OURS = ("multiprocessing.spawn", "multiprocessing.forkserver")


def follow(api: str) -> None:
    """From now on whatever multiprocessing starts begins with us."""
    util: Any = multiprocessing.util
    util.spawnv_passfds = spawning(util.spawnv_passfds, api)


def spawning(spawn: Callable[..., int], api: str) -> Callable[..., int]:
    def spawned(path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
        words = list(args)
        at = words.index("-c") + 1 if "-c" in words else len(words)
        if at < len(words) and any(name in words[at] for name in OURS):
            words[at] = beginning(api) + words[at]
            passfds = sorted({*passfds, *_telemetry()})
        return spawn(path, words, passfds)

    return spawned


def beginning(api: str) -> str:
    return (
        f"import runpy; runpy.run_path({importable.FILE!r}); "
        f"from runspine.launcher.children import begin; begin({api!r}); "
    )


def begin(api: str) -> None:
    """In a spawned child, before anything of the script is imported."""
    from runspine.launcher.program import install

    install(api)
    follow(api)


def end_on_signal(number: int, frame: object) -> None:
    """In a child that is told to end: say what waits, then end as if nobody had listened."""
    record.run.finish()
    record.leave_tally()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def end_all() -> None:
    """When the script has ended: the ends of daemons, as at exit, but while we can still count."""
    daemons = [child for child in multiprocessing.active_children() if child.daemon]
    for child in daemons:
        child.terminate()
    for child in daemons:
        child.join(LONGEST_END)


def _telemetry() -> list[int]:
    descriptor = os.environ.get("RUNSPINE_TELEMETRY_FD", "")
    return [int(descriptor)] if descriptor.isdecimal() and record.run.active else []
