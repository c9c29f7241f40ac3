"""The line of a trainer's stderr that states why it failed. Pure.

It is the last one, except where a framework ends with lines of its own: JAX with a note on its frames,
torchrun with a table of processes.
"""

from __future__ import annotations

import re

_RULE = re.compile(r"\W{3,}")
_NOTES = (
    "For simplicity, JAX has removed its internal frames",
    "The stack trace below excludes JAX-internal frames",
)
# An exception as Python prints it, in the first column; torch puts the rank before it.
_RAISED = re.compile(r"(?:\[rank\d+\]:\s?)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?::.*)?)")
_TORCHRUN = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_EXIT_CODE = re.compile(r"exitcode\s*:\s*(-?\d+)")


class FailureLine:
    """Reads stderr line by line."""

    def __init__(self) -> None:
        self._last = ""
        self._raised = ""
        self._torchrun = False
        # Of the process that failed first, which torchrun's table has last.
        self._exit_code = ""

    def add(self, line: str) -> None:
        line = line.rstrip()
        if not line or _RULE.fullmatch(line.strip()) or line.startswith(_NOTES):
            return
        if line.startswith(_TORCHRUN):
            self._torchrun = True
        elif self._torchrun:
            if code := _EXIT_CODE.search(line):
                self._exit_code = code[1]
        elif raised := _RAISED.fullmatch(line):
            self._raised = raised[1]
        self._last = line.strip()

    @property
    def text(self) -> str:
        """Empty when there was none."""
        if not self._torchrun:
            return self._last
        if self._raised:
            return self._raised
        return f"torchrun: a process ended with exit code {self._exit_code or 'unknown'}"
