"""The directories of runs on a worker's disk: their sizes, and their removal in steps that survive a kill.

A directory is first renamed into `removing`, under a name that carries its run, its bytes and the rule.
Then it is emptied, the fact is recorded, and the empty directory is removed: a start after a kill finds
what is left there and continues.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from runspine.ids import is_ulid
from runspine.services.worker.machine.removal import (
    NotRemovedError,
    RemovalStoppedError,
    empty_directory,
)
from runspine.services.worker.process.limits import disk_used

log = structlog.get_logger()

RUNS, REMOVING = "runs", "removing"
# Longest time that one survey measures directories; the next one continues.
SURVEY_SECONDS = 5.0
# The directory of a run that is held here grows: it is measured again after this time.
HELD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Removal:
    """A run's directory that is being removed, and why."""

    run_id: str
    size: int
    rule: str

    @property
    def name(self) -> str:
        """The name of the directory while it is removed."""
        return f"{self.run_id},{self.size},{self.rule}"

    @classmethod
    def parse(cls, name: str) -> Removal | None:
        """The removal that this name stands for; None for anything else."""
        run_id, _, rest = name.partition(",")
        size, _, rule = rest.partition(",")
        if not is_ulid(run_id) or not size.isdecimal() or not rule:
            return None
        return cls(run_id, int(size), rule)


@dataclass(frozen=True, slots=True)
class _Measured:
    size: int
    at: float
    held: bool


class RunFolders:
    """Every directory of a run below a worker's directory. All methods block."""

    def __init__(self, worker_dir: Path) -> None:
        self._runs = worker_dir / RUNS
        self._removing = worker_dir / REMOVING
        # What the last survey found, measured or not; replaced as a whole, because other threads read it.
        self._known: dict[str, _Measured | None] | None = None
        self._stopped = threading.Event()

    @property
    def count(self) -> int | None:
        """How many there are; None before the first survey."""
        return None if self._known is None else len(self._known)

    @property
    def total_bytes(self) -> int | None:
        """Bytes of all of them; None until each was measured."""
        if (known := self._known) is None:
            return None
        measured = [each.size for each in known.values() if each is not None]
        return sum(measured) if len(measured) == len(known) else None

    def stop(self) -> None:
        """End a removal that is under way in another thread."""
        self._stopped.set()

    def survey(self, held: Collection[str]) -> dict[str, int]:
        """List the directories and measure some; the bytes of those measured that no attempt holds."""
        names = [name for name in _names(self._runs) if is_ulid(name)]
        before = self._known or {}
        known = {name: before.get(name) for name in names}
        end = time.monotonic() + SURVEY_SECONDS
        for name in names:
            now = time.monotonic()
            if now >= end or self._stopped.is_set():
                break
            if _is_due(known[name], name in held, now):
                known[name] = _Measured(disk_used(self._runs / name), now, name in held)
        self._known = known
        return {
            name: measured.size
            for name, measured in known.items()
            if measured is not None and name not in held and not measured.held
        }

    def set_aside(self, removal: Removal) -> None:
        """Rename a run's directory, so that it is either in its place or being removed."""
        self._removing.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A link in the place of a directory is renamed, never followed, and does not count as one later.
        os.rename(self._runs / removal.run_id, self._removing / removal.name)
        for folder in (self._removing, self._runs):
            _sync(folder)
        known = self._known or {}
        self._known = {name: measured for name, measured in known.items() if name != removal.run_id}

    def left(self) -> list[Removal]:
        """Removals that were begun and not finished, by this process or an earlier one."""
        parsed = (Removal.parse(name) for name in _names(self._removing))
        return [removal for removal in parsed if removal is not None]

    def empty(self, removals: Iterable[Removal]) -> list[Removal]:
        """Remove the contents of these directories; those that are empty now."""
        done: list[Removal] = []
        try:
            parent = os.open(self._removing, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return done
        try:
            for removal in removals:
                try:
                    empty_directory(removal.name, parent, self._stopped.is_set)
                except NotRemovedError as error:
                    log.error("folder.not_removed", run_id=removal.run_id, error=str(error))
                else:
                    done.append(removal)
        except RemovalStoppedError:
            log.info("folder.removal_stopped")
        finally:
            os.close(parent)
        return done

    def finish(self, removals: Iterable[Removal]) -> None:
        """Remove the empty directories of removals that are on the log."""
        for removal in removals:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(self._removing / removal.name)


def _is_due(measured: _Measured | None, held: bool, now: float) -> bool:
    """Whether a directory must be measured: never measured, still growing, or grown since."""
    if measured is None or (measured.held and not held):
        return True
    return held and now - measured.at >= HELD_SECONDS


def _names(folder: Path) -> list[str]:
    """Names of the directories in a folder, sorted; links are not directories."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
