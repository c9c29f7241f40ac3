"""Outputs that cannot be appended to: written to a draft from the first batch, then moved into place.

`<out>/.runspine/` records the position that the finished output reaches. A draft left by a kill is removed
by the next export of the same run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspine.sinks.ledger import lock_folder, read_state, write_state
from runspine.sinks.port import ExportedRun, Mark


class Draft:
    """Draft and final location of one export of one run."""

    def __init__(self, out: Path, exported: ExportedRun, sink: str, options: Mapping[str, Any]) -> None:
        self.out = out
        self.folder = out / ".runspine" / f"{sink}-{exported.run_id}"
        self._state = self.folder / "state.json"
        self._about = {"version": 1, "sink": sink, "options": dict(options)}
        self._lock: int | None = None
        self.mark = Mark()
        # False when the finished output is complete and stays unchanged.
        self.is_open = False

    @property
    def draft_folder(self) -> Path:
        return self.folder / "draft"

    def open(self) -> Mark:
        """Mark of the finished output when it holds all of an ended run; otherwise the start."""
        self._lock = lock_folder(self.folder)
        known = read_state(self._state)
        if known and known["done"] and all(known.get(k) == v for k, v in self._about.items()):
            places = [self.out / place for place in known["places"]]
            if places and all(place.exists() for place in places):
                self.mark = Mark(known["positions"], known["attempt"], True)
                return self.mark
        self.restart()
        return self.mark

    def restart(self) -> None:
        self.mark, self.is_open = Mark(), True
        shutil.rmtree(self.draft_folder, ignore_errors=True)
        self.draft_folder.mkdir(parents=True)

    def previous_outputs(self) -> list[Path]:
        """Outputs of the previous export."""
        known = read_state(self._state)
        return [self.out / place for place in known["places"]] if known else []

    def publish(self, made: Path, place: Path) -> None:
        """Replace the output at `place` with a finished one."""
        place.parent.mkdir(parents=True, exist_ok=True)
        old = self.folder / "old"
        shutil.rmtree(old, ignore_errors=True)
        if place.is_dir():
            # A non-empty folder cannot be replaced in one move.
            os.replace(place, old)
        os.replace(made, place)
        shutil.rmtree(old, ignore_errors=True)

    def record_done(self, places: list[Path]) -> None:
        """Record that the output is in place."""
        write_state(
            self._state,
            {
                **self._about,
                "positions": dict(self.mark.positions),
                "attempt": self.mark.attempt,
                "done": self.mark.done,
                "places": [str(place.relative_to(self.out)) for place in places],
            },
        )

    def close(self) -> None:
        shutil.rmtree(self.draft_folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
