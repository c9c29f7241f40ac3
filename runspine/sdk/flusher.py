"""Writes what waits while the trainer does something else, such as a compilation of minutes."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runspine.sdk.run import Run

IDLE_SECONDS = 0.25


class Flusher:
    """A thread that looks four times a second; started with the first telemetry, and again in a fork.

    It leaves alone what moves: a slot that was stepped between two looks writes its rows itself.
    """

    def __init__(self, run: Run) -> None:
        self._run = weakref.ref(run)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread unless it runs. Without one, rows wait for the next step."""
        if self._thread is None:
            self._thread = threading.Thread(target=_look, args=(self._run,), name="runspine", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The interpreter is about to end: the run is flushed at exit.
                return

    def forked(self) -> None:
        """The thread is the parent's."""
        self._thread = None


def _look(ref: weakref.ref[Run]) -> None:
    wait = threading.Event().wait
    seen: list[int] = []
    while not wait(IDLE_SECONDS):
        run = ref()
        if run is None or not run.pipe.open:
            return
        counts = run.pending_counts()
        if counts == seen and any(counts):
            run.flush()
        seen = counts
        run.look()
        # Not held while it waits.
        del run
