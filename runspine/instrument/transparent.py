"""Instruments a program that was started as it is: `startup/` is on the PYTHONPATH of its processes.

Nothing about the program changes: neither its command nor `__main__`, its exit code, the effect of signals or
the behaviour of its envs. A program that records by itself through the SDK is left alone.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from functools import partial

from runspine.instrument import envs, hooks, writers
from runspine.instrument.api import OLD
from runspine.instrument.children import end_on_signal
from runspine.instrument.program import send_later
from runspine.instrument.record import record
from runspine.instrument.startup_variables import MODE, OFF
from runspine.instrument.trackers import hooking
from runspine.sdk import shortcuts

_USES_SDK = re.compile(rb"^\s*(import|from)\s+runspine\b", re.MULTILINE)
MAX_SOURCE_BYTES = 4 << 20


def begin(api: str, *, uses_sdk: bool = False) -> None:
    """Patch what the program imports from here on, unless it uses the SDK."""
    record.transparent = True
    main = str(getattr(sys.modules.get("__main__"), "__file__", "") or "")
    record.script = main if multiprocessing.parent_process() is None else ""
    shortcuts.when_recording(stand_down)
    if uses_sdk or _imports_sdk(main):
        stand_down()
    record.on_first_env = handle_sigterm
    patches: dict[str, hooks.Patch] = {
        "gymnasium": partial(envs.patch, old_api=api == OLD),
        "envpool": envs.patch_envpool,
        **writers.PATCHES,
    }
    if record.stood_down:
        hooks.install(patches)
    else:
        hooks.install({**patches, **hooking.patches(os.environ)})
        hooking.install()


def stand_down() -> None:
    """The program records its envs by itself: its processes are not instrumented from here on."""
    record.stood_down = True
    os.environ[MODE] = OFF
    for env in list(record.tapped):
        env.untap()
    record.run.reuse_slots(record.ledger.emptied())


def handle_sigterm() -> None:
    """Write what is pending before the default action of SIGTERM; a handler of the program's stays."""
    try:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _end)
    except ValueError:
        # Not in the main thread: the last tenth of a second may be lost.
        pass


def _end(number: int, frame: object) -> None:
    if record.run.writing:
        send_later(number)
    else:
        end_on_signal(number, frame)


def _imports_sdk(script: str) -> bool:
    """Whether the program's main file imports the SDK."""
    try:
        with open(script, "rb") as file:
            return _USES_SDK.search(file.read(MAX_SOURCE_BYTES)) is not None
    except OSError:
        return False
