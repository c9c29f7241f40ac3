"""Journal on disk of the attempts that this worker holds, read by recovery after a restart."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

log = structlog.get_logger()


class DirectoryInUseError(Exception):
    """Another worker process holds this directory."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An attempt that is being claimed or was claimed."""

    run_id: str
    attempt: int
    directory: str

    @property
    def name(self) -> str:
        """<run_id>.<attempt>, the name of everything that belongs to the attempt on disk."""
        return f"{self.run_id}.{self.attempt}"


class Journal:
    """One small file for each attempt, synced before its AttemptStarted is appended."""

    def __init__(self, worker_dir: Path) -> None:
        self._folder = worker_dir / "attempts"
        self._folder.mkdir(parents=True, exist_ok=True)

    def add(self, entry: JournalEntry) -> None:
        """Write and sync an entry. Blocks."""
        path = self._folder / f"{entry.name}.json"
        draft = path.with_suffix(".tmp")
        with draft.open("w") as file:
            json.dump(asdict(entry), file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        self._sync()

    def remove(self, entry: JournalEntry) -> None:
        """Remove an entry. Blocks."""
        (self._folder / f"{entry.name}.json").unlink(missing_ok=True)
        self._sync()

    def entries(self) -> list[JournalEntry]:
        """All readable entries. Blocks."""
        return [entry for path in sorted(self._folder.glob("*.json")) if (entry := _read(path))]

    def run_ids(self) -> set[str]:
        """Runs with an entry, readable or not. Blocks."""
        return {path.name.partition(".")[0] for path in self._folder.iterdir()}

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read(path: Path) -> JournalEntry | None:
    try:
        return JournalEntry(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        # Writes are atomic, so this is damage from outside: keep the file and log it.
        log.error("journal.unreadable", path=str(path), error=str(error))
        return None


@contextmanager
def hold_directory(worker_dir: Path) -> Iterator[None]:
    """Keep a second worker process out of this directory. Raises DirectoryInUseError."""
    worker_dir.mkdir(parents=True, exist_ok=True)
    with (worker_dir / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise DirectoryInUseError(
                f"{worker_dir} is in use by another worker (process {file.read().strip() or 'unknown'}): "
                "stop that one, or set RUNSPINE_WORKER_DIR and RUNSPINE_WORKER_ID to something else"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
