"""Files that a trainer announces: those outside the run's directory are copied into it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def path_inside(home: Path, path: Path) -> str:
    """Path of a file below the run's directory."""
    home, source = home.resolve(), path.resolve()
    if source.is_relative_to(home):
        return str(source.relative_to(home))
    folder = home / "artifacts"
    folder.mkdir(exist_ok=True)
    copy, part = folder / source.name, folder / f".{source.name}.{os.getpid()}"
    # A new file each time: the previous one may still be uploading.
    shutil.copyfile(source, part)
    part.replace(copy)
    return str(copy.relative_to(home))
