"""Where a worker puts what it fetches for a run. Imports nothing heavy: a trainer's process uses it, too."""

from __future__ import annotations

import re

# Folder in the run's directory with checkpoints of S3: inputs of the run, never its products.
DOWNLOADS = "resume"
_NAME = re.compile(rf"{DOWNLOADS}/[0-9a-f]{{64}}[^/]*\Z")


def is_download(path: str) -> bool:
    """Whether a path below the run's directory is one that the worker fetched, named by its digest."""
    return _NAME.match(path) is not None
