"""The result of a launch check in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from runspine.text.values import escaped
from runspine.wire.v1.preflight_pb2 import PREFLIGHT_READY, PREFLIGHT_UNKNOWN, Preflight


def preflight_lines(preflight: Preflight, when: Callable[[int], str] | None = None) -> list[str]:
    """One line, and the command below it; none for a run from before launch checks. The text is escaped."""
    at = f" ({when(preflight.at)})" if when is not None and preflight.at else ""
    if preflight.state == PREFLIGHT_UNKNOWN:
        return [f"launch check{at}: unknown: {escaped(preflight.reason)}"]
    if preflight.state != PREFLIGHT_READY:
        return []
    where = escaped(preflight.directory)
    return [
        f"launch check{at}: worker {escaped(preflight.worker_id)} would start it in {where}:",
        f"  {escaped(command_text(preflight))}",
    ]


def command_text(preflight: Preflight) -> str:
    """The command as a shell would take it."""
    return shlex.join(preflight.command)
