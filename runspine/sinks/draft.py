"""Outputs that cannot be gone on with: made aside from the first batch, and put in place when whole.

What is known of them lies in `<out>/.runspine/`: how far the finished output reaches. A draft that a
kill left behind is swept away by the next export of the same run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspine.sinks.ledger import read_state, take_folder, write_state
from runspine.sinks.port import Mark, Subject


class Draft:
    """The draft and the finished place of one export of one run."""

    def __init__(self, out: Path, subject: Subject, sink: str, options: Mapping[str, Any]) -> None:
        self.out = out
        self.folder = out / ".runspine" / f"{sink}-{subject.run_id}"
        self._state = self.folder / "state.json"
        self._about = {"version": 1, "sink": sink, "options": dict(options)}
        self._lock: int | None = None
        self.mark = Mark()
        # False when the finished output has all there is and is left alone.
        self.is_making = False

    @property
    def making(self) -> Path:
        return self.folder / "draft"

    def open(self) -> Mark:
        """The finished output's mark when all of an ended run is in it; otherwise the start."""
        self._lock = take_folder(self.folder)
        known = read_state(self._state)
        if known and known["done"] and all(known.get(k) == v for k, v in self._about.items()):
            places = [self.out / place for place in known["places"]]
            if places and all(place.exists() for place in places):
                self.mark = Mark(known["positions"], known["attempt"], True)
                return self.mark
        self.restart()
        return self.mark

    def restart(self) -> None:
        self.mark, self.is_making = Mark(), True
        shutil.rmtree(self.making, ignore_errors=True)
        self.making.mkdir(parents=True)

    def earlier(self) -> list[Path]:
        """What the export before this one left in place."""
        known = read_state(self._state)
        return [self.out / place for place in known["places"]] if known else []

    def place(self, made: Path, place: Path) -> None:
        """Put something that is made in the place of what was there."""
        place.parent.mkdir(parents=True, exist_ok=True)
        old = self.folder / "old"
        shutil.rmtree(old, ignore_errors=True)
        if place.is_dir():
            # A folder with something in it cannot be replaced in one move.
            os.replace(place, old)
        os.replace(made, place)
        shutil.rmtree(old, ignore_errors=True)

    def settle(self, places: list[Path]) -> None:
        """The output is in place: say so."""
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
        shutil.rmtree(self.making, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
