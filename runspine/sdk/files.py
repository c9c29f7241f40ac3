"""Files of a run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def inside(run_dir: Path, path: Path) -> str:
    """The path of a file relative to the run's directory; one from outside is copied into it."""
    home, source = run_dir.resolve(), path.resolve()
    if source.is_relative_to(home):
        return str(source.relative_to(home))
    folder = home / "artifacts"
    folder.mkdir(exist_ok=True)
    copy, part = folder / source.name, folder / f".{source.name}.{os.getpid()}"
    # A new file each time: the previous one may still be uploading.
    shutil.copyfile(source, part)
    part.replace(copy)
    return str(copy.relative_to(home))
