"""What is wrong with a dataset."""

from __future__ import annotations


class BadDataset(Exception):
    """The dataset cannot be used; the message names the file and says why."""
