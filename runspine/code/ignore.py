"""Patterns of .gitignore and .runspineignore, with git's rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IgnorePattern:
    """One line of an ignore file."""

    # Folder of the file, below the root; empty for the root itself.
    folder: str
    expression: re.Pattern[str]
    folders_only: bool
    # A line that begins with `!`: what it matches is kept.
    kept: bool

    def matches(self, path: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        inner = path.removeprefix(f"{self.folder}/") if self.folder else path
        return (not self.folder or inner != path) and bool(self.expression.match(inner))


def read_patterns(text: str, folder: str = "") -> list[IgnorePattern]:
    """The patterns of an ignore file in this folder."""
    found = (_pattern(line, folder) for line in text.splitlines())
    return [pattern for pattern in found if pattern is not None]


def verdict(patterns: Iterable[IgnorePattern], path: str, is_folder: bool) -> IgnorePattern | None:
    """The pattern that decides on this path itself: the last one that matches."""
    last = None
    for pattern in patterns:
        if pattern.matches(path, is_folder):
            last = pattern
    return last


def is_ignored(patterns: list[IgnorePattern], path: str) -> bool:
    """Whether a file is left out, by itself or with one of its folders."""
    parts = path.split("/")
    for length in range(1, len(parts) + 1):
        found = verdict(patterns, "/".join(parts[:length]), length < len(parts))
        if found is not None and not found.kept:
            return True
    return False


def _pattern(line: str, folder: str) -> IgnorePattern | None:
    line = _without_trailing_spaces(line)
    if not line or line.startswith("#"):
        return None
    kept = line.startswith("!")
    line = line[1:] if kept else line
    folders_only = line.endswith("/")
    line = line.rstrip("/") if folders_only else line
    if not line:
        return None
    anchored = "/" in line
    expression = _expression(line.removeprefix("/"))
    if not anchored:
        expression = f"(?:.*/)?{expression}"
    try:
        return IgnorePattern(folder, re.compile(rf"{expression}\Z", re.DOTALL), folders_only, kept)
    except re.error:
        return None  # such as an open bracket: git matches nothing with it


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" \r")
    return stripped + " " if stripped.endswith("\\") and stripped != line else stripped


def _expression(glob: str) -> str:
    """The pattern as a regular expression."""
    out, at = [], 0
    while at < len(glob):
        rest = glob[at:]
        if at == 0 and rest.startswith("**/"):
            out.append("(?:.*/)?")
            at += 3
        elif rest == "/**":
            out.append("/.+")
            at += 3
        elif rest.startswith("/**/"):
            out.append("/(?:.*/)?")
            at += 4
        elif rest[0] == "*":
            out.append("[^/]*")
            at += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            out.append("[^/]")
            at += 1
        elif rest[0] == "[" and (found := re.match(r"\[([!^]?)(\]?[^\]]*)\]", rest)):
            inner = found[2].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
            out.append(f"(?!/)[{'^' if found[1] else ''}{inner}]")
            at += found.end()
        elif rest[0] == "\\" and len(rest) > 1:
            out.append(re.escape(rest[1]))
            at += 2
        else:
            out.append(re.escape(rest[0]))
            at += 1
    return "".join(out)
