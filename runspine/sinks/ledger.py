"""Files that only grow, and a ledger of how much of each is certain.

A commit syncs the files and then replaces the ledger. After a kill the files are cut back to what
the ledger knows, so whatever is fed from its mark on is in them once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from runspine.errors import Invalid, Refused
from runspine.sinks.port import Mark, Subject

CLAIM = ".runspine-run"
VERSION = 1


class Ledger:
    """One folder that holds one export of one run."""

    def __init__(self, folder: Path, run_id: str, sink: str, options: Mapping[str, Any]) -> None:
        self.folder = folder
        self._path = folder / f".runspine-{sink}.json"
        self._about = {"version": VERSION, "run_id": run_id, "options": dict(options)}
        self._files: dict[str, BinaryIO] = {}
        self._lock: int | None = None
        # What the sink wants to know again after a kill.
        self.notes: dict[str, Any] = {}

    def open(self, names: Sequence[str]) -> Mark:
        """Open the files for appending, cut back to what is certain; from the start when they do not fit."""
        self._lock = take_folder(self.folder, self._path.stem)
        known = self._read()
        mark = Mark(known["positions"], known["attempt"], known["done"]) if known else Mark()
        lengths: dict[str, int] = known["files"] if known else {}
        if known and not self._holds(names, lengths):
            mark, lengths = Mark(), {}
        self.notes = dict(known["notes"]) if known and lengths else {}
        for name in names:
            file = (self.folder / name).open("r+b" if name in lengths else "w+b")
            file.truncate(lengths.get(name, 0))
            file.seek(0, os.SEEK_END)
            self._files[name] = file
        return mark

    def restart(self) -> None:
        """Empty the files: what was in them is to be fed again."""
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
        """None as well when it is of another version, or was made with other options."""
        known = read_state(self._path)
        if known is None or any(known.get(key) != value for key, value in self._about.items()):
            return None
        return known

    def _holds(self, names: Sequence[str], lengths: Mapping[str, int]) -> bool:
        """Whether everything the ledger knows is still there."""
        if set(names) != set(lengths):
            return False
        paths = {name: self.folder / name for name in names}
        return all(path.is_file() and path.stat().st_size >= lengths[n] for n, path in paths.items())


def folder_of(out: Path, subject: Subject) -> Path:
    """The run's folder, by its name; a name that another run has taken there gets the end of the id."""
    folder = out / subject.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), (folder / CLAIM).open("x") as claim:
            claim.write(subject.run_id)
        if (folder / CLAIM).read_text() in (subject.run_id, ""):
            return folder
    except OSError as error:
        raise Invalid(f"{folder}: cannot be written: {error.strerror or error}") from error
    return out / f"{subject.folder}-{subject.run_id[-6:]}"


def take_folder(folder: Path, name: str = "lock") -> int:
    """Make the folder and hold it against others; close the descriptor to let go."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{name}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Invalid(f"{folder}: cannot be written: {error.strerror or error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise Refused(
            f"another export is writing to {folder}; wait for it or choose another --out"
        ) from error
    return descriptor


def read_state(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None  # none, or not ours: nothing is certain
    return found if isinstance(found, dict) else None


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    draft = path.with_name(path.name + ".part")
    with draft.open("w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
