"""Files that the script has saved and may still rename: announced under the name that they end up with."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from runspine.instrument.record import echo, record

# A file that is written aside is renamed within this time.
HOLD_SECONDS = 1.0
# Endings of names that are not meant to stay: such files wait until they are renamed, or for the end.
TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".saving", ".new", "~")


class SavedFile(NamedTuple):
    """A file, when it was saved, and the step of the training at that time."""

    path: str
    at: float
    step: int


class SavedFiles:
    """Holds saved files back for a moment. `announce` is called once for each that is still there."""

    def __init__(self, announce: Callable[[str, int], None]) -> None:
        self._announce = announce
        self._held: dict[str, SavedFile] = {}
        self._lock = threading.RLock()

    def forked(self) -> None:
        """The parent announces its files."""
        self._lock = threading.RLock()
        self._held = {}

    def saving(self, path: str | os.PathLike[str]) -> float:
        """A file is about to be written, again perhaps: it waits no longer. Returns since when it has."""
        with self._lock:
            before = self._held.pop(os.path.realpath(path), None)
        return time.monotonic() if before is None else before.at

    def add(self, path: str | os.PathLike[str], step: int, since: float) -> None:
        real = os.path.realpath(path)
        with self._lock:
            self._held[real] = SavedFile(os.fspath(path), since, step)
        record.run.on_look = self.release
        record.run.flusher.start()

    def renamed(self, old: str, new: str) -> None:
        """A file, or a folder with files, has another name now; both are real paths."""
        with self._lock:
            for real in [each for each in self._held if each == old or each.startswith(old + os.sep)]:
                saved = self._held.pop(real)
                moved = new + real[len(old) :]
                self._held[moved] = saved._replace(path=moved)
            if old in record.announced and new not in self._held and os.path.isfile(new):
                self._held[new] = SavedFile(new, time.monotonic(), record.step)

    def release(self, *, final: bool = False) -> None:
        """Announce the files that have waited long enough; all of them at the end."""
        with self._lock:
            now = time.monotonic()
            for real, saved in list(self._held.items()):
                if final or (now - saved.at >= HOLD_SECONDS and not is_temporary(real)):
                    del self._held[real]
                    self._release(real, saved)

    def _release(self, real: str, saved: SavedFile) -> None:
        if not os.path.isfile(real) or not os.path.getsize(real):
            echo(f"WARNING: {os.path.basename(real)} was saved and is empty or gone: it is not kept")
            return
        self._announce(saved.path, saved.step)


def is_temporary(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith((".", "tmp")) or name.endswith(TEMPORARY)


def following(rename: Callable[..., Any], files: SavedFiles) -> Callable[..., Any]:
    """Patch `os.rename` or `os.replace`."""

    @functools.wraps(rename)
    def renamed(src: Any, dst: Any, **more: Any) -> Any:
        old = None if any(more.values()) else _real(src)
        rename(src, dst, **more)
        if old is not None and (new := _real(dst)) is not None:
            files.renamed(old, new)

    return renamed


def _real(path: Any) -> str | None:
    return os.path.realpath(path) if isinstance(path, str | os.PathLike) else None
