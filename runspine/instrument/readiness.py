"""Whether this machine can run CleanRL's scripts, for `runspine doctor`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from runspine.instrument import probe
from runspine.instrument.checkout import HOW_TO_GET, SOURCE, VARIABLE, CleanrlCheckout, CleanrlCheckoutError

PYTHONS = "RUNSPINE_RUNNER_PYTHON"
PACKAGES = ("torch", "gymnasium", "numpy", "tensorboard", "tyro")
INSTALL = (
    "torch 'gymnasium[classic-control,mujoco]==0.29.1' 'numpy<2' 'mujoco<3' 'moviepy<2' tensorboard tyro"
)
TIMEOUT_SECONDS = 30.0


class CleanrlReadiness(NamedTuple):
    """Result and remedy. `note`: it is not configured."""

    level: Literal["ok", "note", "warn"]
    text: str
    do: str = ""


def readiness(environment: Mapping[str, str]) -> CleanrlReadiness:
    try:
        checkout = CleanrlCheckout.find(environment)
    except CleanrlCheckoutError as error:
        if not environment.get(VARIABLE):
            return CleanrlReadiness("note", f"{VARIABLE} is not set", f"if you want it: {HOW_TO_GET}")
        return CleanrlReadiness("warn", str(error).partition(": ")[0], HOW_TO_GET)
    count = len(checkout.scripts())
    if not count:
        return CleanrlReadiness("warn", f"{checkout.folder} has no scripts", f"clone {SOURCE} again")
    commit = f", commit {checkout.commit[:7]}" if checkout.commit else ""
    python = python_of(environment)
    found = _probe(python)
    if isinstance(found, str):
        return CleanrlReadiness("warn", found, f"make that virtualenv, or correct {PYTHONS}_CLEANRL")
    if found["missing"]:
        text = f"{python} does not have {', '.join(found['missing'])}"
        return CleanrlReadiness("warn", text, f"{python} -m pip install {INSTALL}")
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return CleanrlReadiness("ok", f"{count} scripts in {checkout.folder}{commit}; {versions}")


def python_of(environment: Mapping[str, str]) -> str:
    """The runner's Python by the worker's settings; this one when none is set."""
    if own := environment.get(f"{PYTHONS}_CLEANRL"):
        return own
    try:
        named = json.loads(environment.get(PYTHONS) or "{}")
    except ValueError:
        return sys.executable
    return str(named.get("cleanrl") or sys.executable) if isinstance(named, dict) else sys.executable


def _probe(python: str) -> dict[str, Any] | str:
    """Result of the probe in that Python, or why it failed."""
    words = [python, str(Path(probe.__file__)), json.dumps({"packages": PACKAGES})]
    try:
        done = subprocess.run(words, capture_output=True, timeout=TIMEOUT_SECONDS, text=True, check=False)
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"{python} cannot be run: {type(error).__name__}: {error}"
    return found if isinstance(found, dict) else f"{python} printed no result"
