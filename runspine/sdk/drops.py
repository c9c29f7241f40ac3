"""What could not be recorded: counted, and reported to the worker by its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runspine.sdk.pipe import Pipe

# Kinds that are reported by name.
MAX_KINDS = 50


class Drops:
    """The first of each kind is reported at once, the rest at the end."""

    def __init__(self, pipe: Pipe, write: Callable[[dict[str, Any]], None], *, reports: bool) -> None:
        """`reports` is whether the worker knows the line."""
        self._pipe = pipe
        self._write = write
        self._reports = reports
        self._kinds: set[str] = set()
        self._reported = 0

    def add(self, why: str, kind: str = "") -> None:
        self._pipe.dropped += 1
        if (kind or why) not in self._kinds and len(self._kinds) < MAX_KINDS:
            self._kinds.add(kind or why)
            self.report(why)

    def report(self, why: str) -> None:
        """Report what was not reported yet."""
        count = self._pipe.dropped - self._reported
        if count and self._pipe.open and self._reports:
            self._reported += count
            self._write({"type": "dropped", "count": count, "reason": why})
