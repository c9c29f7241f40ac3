"""Paths that a command names: a sandboxed program reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

# Between the pieces of a word that is a line of shell.
_BETWEEN = re.compile(r"[\s'\"=;&|()<>]+")


def named_paths(words: Iterable[str]) -> tuple[Path, ...]:
    """Files and folders that are words or values of options, and programs of virtualenvs in lines of shell.

    Blocks.
    """
    return tuple(dict.fromkeys(path for word in words for path in _named_in(word)))


def _named_in(word: str) -> Iterator[Path]:
    for text in dict.fromkeys((word, word.rpartition("=")[2])):
        if path := _existing(text):
            yield path
    for text in _BETWEEN.split(word):
        path = _existing(text)
        if path and path.parent.name == "bin" and any(path.parents[1].glob("lib/python3*")):
            yield path


def _existing(text: str) -> Path | None:
    """An absolute path; None for sockets and devices, and for what cannot be looked at."""
    path = Path(text)
    try:
        found = path.is_absolute() and "\0" not in text and (path.is_dir() or path.is_file())
    except OSError:
        found = False
    return path if found else None
