"""The supervisor's own log: a line for each thing that happened to a part."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from runspine.embedded.keeper import Event
from runspine.embedded.logs import open_log


class Journal:
    def __init__(self, path: Path) -> None:
        self._descriptor = open_log(path)

    def write(self, event: Event) -> None:
        line = {
            "timestamp": datetime.now(UTC).isoformat(),
            "event": f"part.{event.what}",
            "part": event.part,
            **({"detail": event.detail} if event.detail else {}),
        }
        try:
            os.write(self._descriptor, json.dumps(line).encode() + b"\n")
        except OSError:
            # The disk is full: the part matters more than its line.
            return

    def close(self) -> None:
        os.close(self._descriptor)
