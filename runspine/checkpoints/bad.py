"""The one error of this package."""

from __future__ import annotations


class BadCheckpoint(Exception):
    """The file is not taken; the message says why. Nothing of it was run, nothing was written."""
