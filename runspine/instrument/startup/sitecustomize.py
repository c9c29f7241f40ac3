"""Instruments this Python process when it imports something that can be recorded.

Imported by every interpreter of an instrumented run, of any version and any virtualenv, before the program
itself. Until the program imports one of the watched modules this costs nothing, and it never fails: a process
that cannot be instrumented runs as it is, and the run's log states it once. Standard library only.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODE = "RUNSPINE_INSTRUMENT"
OFF = "off"
WATCHED = (
    "gymnasium",
    "tensorboard.summary.writer.event_file_writer",
    "tensorboardX.event_file_writer",
)
NOTED = ".not-instrumented"
HERE = os.path.dirname(os.path.abspath(__file__))


class ActivatingFinder:
    """First in `sys.meta_path`, until a watched module is imported."""

    # By which `runspine.instrument` finds it; this file is imported under another name.
    waits_for_runspine = True

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in WATCHED:
            return None
        sys.meta_path.remove(self)
        if os.environ.get(MODE, OFF) != OFF:
            activate()
        # `sys.meta_path` has changed while Python searches it: the search is done here.
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
        return next((spec for spec in found if spec is not None), None)


def activate() -> None:
    """Install the instrumentation; note when this interpreter cannot have it."""
    try:
        import runpy

        # Nothing but the program itself has imported it.
        uses_sdk = "runspine" in sys.modules
        runpy.run_path(os.path.join(os.path.dirname(HERE), "importable.py"))
        from runspine.instrument.transparent import begin

        begin(os.environ[MODE], uses_sdk=uses_sdk)
    except Exception as error:  # noqa: BLE001 - an interpreter and packages of any version
        note(error)


def note(error: Exception) -> None:
    """Print once for the run why a process is not recorded."""
    try:
        path = os.path.join(os.environ["RUNSPINE_RUN_DIR"], NOTED)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        why = f"{sys.executable} is not recorded: {type(error).__name__}: {error}"
        remedy = "Install numpy there and use Python 3.10 or newer, or set capture.instrument to false"
        sys.stderr.write(f"runspine: {why}. {remedy}\n")
    except (KeyError, OSError):
        pass


def run_next() -> None:
    """Leave the path, and run the `sitecustomize` that this one has hidden."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    spec = importlib.machinery.PathFinder.find_spec(__name__)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules[__name__] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if os.environ.get(MODE, OFF) != OFF and os.environ.get("RUNSPINE_RUN_ID"):
        sys.meta_path.insert(0, ActivatingFinder())
    run_next()
