"""Whether a Python program writes steps or episodes as protocol lines itself: then it is not instrumented,
because each would be recorded twice."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

# A longer script is read this far.
MAX_BYTES = 1 << 20
_KINDS = r"""["'](?:step|steps|episode|reset|env)["']"""
_LINE = re.compile(rf"""["']type["']\s*:\s*{_KINDS}|\btype\s*=\s*{_KINDS}""")


def writes_own_lines(arguments: Sequence[str], directory: Path) -> bool:
    """Whether the program names such lines: the code after -c, else the first script. Blocks."""
    for before, word in zip(("", *arguments), arguments, strict=False):
        if before == "-c":
            return _LINE.search(word) is not None
        if word.endswith(".py"):
            return _LINE.search(_source(directory / word)) is not None
    return False


def _source(path: Path) -> str:
    # A named pipe would block for ever.
    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(MAX_BYTES).decode(errors="replace")
    return ""
