"""The error of this package."""

from __future__ import annotations


class DatasetError(Exception):
    """The dataset cannot be used; the message names the file and the reason."""
