"""Whether this machine can run CleanRL's scripts, for `runspine doctor`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from runspine.launcher import probe
from runspine.launcher.checkout import HOW_TO_GET, SOURCE, VARIABLE, Checkout, NoCheckout

PYTHONS = "RUNSPINE_RUNNER_PYTHON"
PACKAGES = ("torch", "gymnasium", "numpy", "tensorboard", "tyro")
INSTALL = (
    "torch 'gymnasium[classic-control,mujoco]==0.29.1' 'numpy<2' 'mujoco<3' 'moviepy<2' tensorboard tyro"
)
SECONDS = 30.0


class Readiness(NamedTuple):
    """`note`: it was never asked for."""

    level: Literal["ok", "note", "warn"]
    says: str
    do: str = ""


def readiness(environment: Mapping[str, str]) -> Readiness:
    try:
        checkout = Checkout.find(environment)
    except NoCheckout as error:
        if not environment.get(VARIABLE):
            return Readiness("note", f"{VARIABLE} is not set", f"if you want it: {HOW_TO_GET}")
        return Readiness("warn", str(error).partition(": ")[0], HOW_TO_GET)
    count = len(checkout.scripts())
    if not count:
        return Readiness("warn", f"{checkout.folder} has no scripts", f"clone {SOURCE} again")
    commit = f", commit {checkout.commit[:7]}" if checkout.commit else ""
    python = python_of(environment)
    found = _ask(python)
    if isinstance(found, str):
        return Readiness("warn", found, f"make that virtualenv, or correct {PYTHONS}_CLEANRL")
    if found["missing"]:
        says = f"{python} does not have {', '.join(found['missing'])}"
        return Readiness("warn", says, f"{python} -m pip install {INSTALL}")
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return Readiness("ok", f"{count} scripts in {checkout.folder}{commit}; {versions}")


def python_of(environment: Mapping[str, str]) -> str:
    """The runner's Python by the worker's settings; this one when they name none."""
    if own := environment.get(f"{PYTHONS}_CLEANRL"):
        return own
    try:
        named = json.loads(environment.get(PYTHONS) or "{}")
    except ValueError:
        return sys.executable
    return str(named.get("cleanrl") or sys.executable) if isinstance(named, dict) else sys.executable


def _ask(python: str) -> dict[str, Any] | str:
    """What the probe finds in that Python, or why it cannot be asked."""
    words = [python, str(Path(probe.__file__)), json.dumps({"packages": PACKAGES})]
    try:
        done = subprocess.run(words, capture_output=True, timeout=SECONDS, text=True, check=False)
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"{python} cannot be asked: {type(error).__name__}: {error}"
    return found if isinstance(found, dict) else f"{python} gave no answer"
