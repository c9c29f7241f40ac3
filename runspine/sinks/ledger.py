"""Append-only files and a ledger of their committed lengths.

A commit syncs the files and then replaces the ledger. After a kill the files are truncated to the committed
lengths, so that everything fed from the mark on is in them once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from runspine.errors import InvalidError, RefusedError
from runspine.sinks.port import ExportedRun, Mark

CLAIM = ".runspine-run"
VERSION = 1


class ExportLedger:
    """Files of one export of one run in one folder."""

    def __init__(self, folder: Path, run_id: str, sink: str, options: Mapping[str, Any]) -> None:
        self.folder = folder
        self._path = folder / f".runspine-{sink}.json"
        self._about = {"version": VERSION, "run_id": run_id, "options": dict(options)}
        self._files: dict[str, BinaryIO] = {}
        self._lock: int | None = None
        # State of the sink that survives a kill.
        self.notes: dict[str, Any] = {}

    def open(self, names: Sequence[str]) -> Mark:
        """Open the files at their committed lengths; from the start when they do not match the ledger."""
        self._lock = lock_folder(self.folder, self._path.stem)
        known = self._read()
        mark = Mark(known["positions"], known["attempt"], known["done"]) if known else Mark()
        lengths: dict[str, int] = known["files"] if known else {}
        if known and not self._holds(names, lengths):
            mark, lengths = Mark(), {}
        self.notes = dict(known["notes"]) if known and lengths else {}
        for name in names:
            (self.folder / name).parent.mkdir(exist_ok=True)
            file = (self.folder / name).open("r+b" if name in lengths else "w+b")
            file.truncate(lengths.get(name, 0))
            file.seek(0, os.SEEK_END)
            self._files[name] = file
        return mark

    def restart(self) -> None:
        """Truncate the files; everything is to be fed again."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self.notes = {}
        for file in self._files.values():
            file.seek(0)
            file.truncate(0)

    def file(self, name: str) -> BinaryIO:
        return self._files[name]

    def commit(self, mark: Mark) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        write_state(
            self._path,
            {
                **self._about,
                "positions": dict(mark.positions),
                "attempt": mark.attempt,
                "done": mark.done,
                "notes": self.notes,
                "files": {name: file.tell() for name, file in self._files.items()},
            },
        )

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _read(self) -> dict[str, Any] | None:
        """Ledger content; None when absent, of another version or with other options."""
        known = read_state(self._path)
        if known is None or any(known.get(key) != value for key, value in self._about.items()):
            return None
        return known

    def _holds(self, names: Sequence[str], lengths: Mapping[str, int]) -> bool:
        """Whether the files have at least their committed lengths."""
        if set(names) != set(lengths):
            return False
        paths = {name: self.folder / name for name in names}
        return all(path.is_file() and path.stat().st_size >= lengths[n] for n, path in paths.items())


def run_folder(out: Path, exported: ExportedRun) -> Path:
    """Folder named after the run, with a suffix of its id when another run has taken the name."""
    folder = out / exported.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), (folder / CLAIM).open("x") as claim:
            claim.write(exported.run_id)
        if (folder / CLAIM).read_text() in (exported.run_id, ""):
            return folder
    except OSError as error:
        raise InvalidError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return out / f"{exported.folder}-{exported.run_id[-6:]}"


def lock_folder(folder: Path, name: str = "lock") -> int:
    """Create and lock the folder; closing the returned descriptor releases the lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{name}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InvalidError(f"{folder}: cannot be written: {error.strerror or error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RefusedError(
            f"another export is writing to {folder}; wait for it or choose another --out"
        ) from error
    return descriptor


def read_state(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None  # absent or unreadable: nothing is committed
    return found if isinstance(found, dict) else None


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write atomically."""
    draft = path.with_name(path.name + ".part")
    with draft.open("w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
