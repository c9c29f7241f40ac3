"""Checkpoints of a BDI run: two arrays and a JSON document in one npz. Reading runs no code."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from runspine.trainers.builtin.checkpoints import CheckpointUnusableError

FORMAT = "runspine-bdi-1"
SUFFIX = ".npz"
# Enough for a table of a million states and ten actions.
MAX_BYTES = 1 << 28


def write(file: BinaryIO, arrays: dict[str, npt.NDArray[Any]], about: dict[str, Any]) -> None:
    text = json.dumps({"format": FORMAT, **about}, separators=(",", ":"))
    page = np.frombuffer(text.encode(), np.uint8)
    np.savez_compressed(file, allow_pickle=False, about=page, **arrays)


def read(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Read the arrays and the JSON document. Raises CheckpointUnusableError."""
    try:
        if not 0 < _unpacked_size(path) <= MAX_BYTES:
            raise CheckpointUnusableError(f"checkpoint {path} is empty, or larger than any table")
        with np.load(path, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
        about = json.loads(found.pop("about").tobytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, RecursionError) as error:
        raise CheckpointUnusableError(f"checkpoint {path} cannot be read: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise CheckpointUnusableError(f"checkpoint {path} is not one of a BDI run ({FORMAT})")
    if missing := {"q", "visits"} - found.keys():
        raise CheckpointUnusableError(f"checkpoint {path} has no array {', '.join(sorted(missing))}")
    return found, about


def _unpacked_size(path: Path) -> int:
    with zipfile.ZipFile(path) as archive:
        return sum(entry.file_size for entry in archive.infolist())
