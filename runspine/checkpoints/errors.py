"""The error of this package."""

from __future__ import annotations


class CheckpointError(Exception):
    """The file is refused; the message states why. No code of it was run, nothing was written."""
