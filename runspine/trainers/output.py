"""Standard output of a trainer, which is its log."""

from __future__ import annotations


def echo(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - a trainer's standard output is its log
