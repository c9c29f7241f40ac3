"""Records the processes that a script starts like the script itself.

Forked processes inherit everything. Those of multiprocessing begin with an empty interpreter and without the
worker's descriptor: here they are given both. Other Python processes (`subprocess`, torchrun) are
instrumented through their environment, and send their telemetry to the worker's socket.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from runspine.instrument import importable
from runspine.instrument.record import record

END_SECONDS = 2.0
# Programs that multiprocessing starts for the script; its resource tracker is not one of them.
OURS = ("multiprocessing.spawn", "multiprocessing.forkserver")


def follow(api: str) -> None:
    """Instrument every process that multiprocessing starts from now on."""
    util: Any = multiprocessing.util
    util.spawnv_passfds = spawning(util.spawnv_passfds, api)


def spawning(spawn: Callable[..., int], api: str) -> Callable[..., int]:
    def spawned(path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
        words = list(args)
        at = words.index("-c") + 1 if "-c" in words else len(words)
        if at < len(words) and any(name in words[at] for name in OURS):
            words[at] = prelude(api) + words[at]
            passfds = sorted({*passfds, *_telemetry()})
        return spawn(path, words, passfds)

    return spawned


def prelude(api: str) -> str:
    return (
        f"import runpy; runpy.run_path({importable.FILE!r}); "
        f"from runspine.instrument.children import begin; begin({api!r}); "
    )


def begin(api: str) -> None:
    """Install the instrumentation in a spawned child, before anything of the script is imported."""
    from runspine.instrument.program import install

    install(api)
    follow(api)


def end_on_signal(number: int, frame: object) -> None:
    """Signal handler of a child: write what is pending, then end by the signal's default action."""
    record.run.finish()
    record.leave_tally()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def end_all() -> None:
    """End the daemons after the script, as at exit, but while their steps can still be counted."""
    daemons = [child for child in multiprocessing.active_children() if child.daemon]
    for child in daemons:
        child.terminate()
    for child in daemons:
        child.join(END_SECONDS)


def _telemetry() -> list[int]:
    descriptor = os.environ.get("RUNSPINE_TELEMETRY_FD", "")
    return [int(descriptor)] if descriptor.isdecimal() and record.run.active else []
