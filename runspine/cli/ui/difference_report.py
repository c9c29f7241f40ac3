"""Differences between two runs, printed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from runspine.cli.ui.screen import echo
from runspine.reproduce.differences import Difference
from runspine.text.values import escaped

MAX_DIFF_LINES = 400


def echo_differences(title: str, found: Sequence[Difference]) -> None:
    """Print a section; nothing when there is nothing in it."""
    if not found:
        return
    echo()
    echo(title, "bold")
    width = min(40, max(len(each.name) for each in found))
    for each in found:
        first, second = escaped(each.first) or "-", escaped(each.second) or "-"
        echo(f"  {escaped(each.name):<{width}}  {first}  ->  {second}")


def text_diff(path: str, first: bytes, second: bytes) -> list[str]:
    """Lines of a unified diff; one line for files that are not text."""
    try:
        one, two = first.decode().splitlines(), second.decode().splitlines()
    except UnicodeDecodeError:
        return [f"{path}: binary, {len(first):,} -> {len(second):,} bytes"]
    lines = list(difflib.unified_diff(one, two, f"a/{path}", f"b/{path}", lineterm="", n=2))
    if len(lines) > MAX_DIFF_LINES:
        left = len(lines) - MAX_DIFF_LINES
        lines = [
            *lines[:MAX_DIFF_LINES],
            f"… {left:,} more lines; `runspine code RUN --out DIR` writes all files",
        ]
    return lines


def echo_text_diff(lines: Sequence[str]) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        echo(f"  {escaped(line)}", styles.get(line[:1], ""))
