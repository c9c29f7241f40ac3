"""Virtualenvs of this host: found and verified, or built once while others wait; evicted oldest first."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from runspine.ids import new_ulid
from runspine.services.worker.virtualenvs.build import BuildPlace, NotBuiltError, VirtualenvBuilder
from runspine.services.worker.virtualenvs.locks import lock, try_lock, unlock
from runspine.services.worker.virtualenvs.recipe import PythonFound, Recipe, make_recipe
from runspine.services.worker.virtualenvs.record import (
    VENV,
    NotKeptError,
    Record,
    read_verified,
    remove_folder,
    write_record,
)
from runspine.wire.v1.spec_pb2 import Packages

log = structlog.get_logger()

DOWNLOADS, LOCKS = "downloads", "locks"
DRAFT = ".draft-"
KEY_LENGTH = 64
# Writes the files of a lock below the folder of a build and returns where.
Fetch = Callable[[Path], Awaitable[Path]]


@dataclass(frozen=True, slots=True)
class Virtualenv:
    """A virtualenv that is whole, and is not removed until it is released."""

    key: str
    folder: Path
    python: str
    # "name==version" a line.
    packages: bytes
    # Holds the lock by which others know that it is in use.
    holder: int
    notes: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return str(self.folder / "bin" / "python")


class VirtualenvCache:
    """Gives virtualenvs to runs. Workers of one host may share its folder."""

    def __init__(self, folder: Path, builder: VirtualenvBuilder, limit: int) -> None:
        self._folder = folder
        self._builder = builder
        self._limit = limit
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # When a build failed, and why: for those that have waited for it.
        self._failures: dict[str, tuple[float, str]] = {}

    async def get(
        self, packages: Packages, python: PythonFound, fetch: Fetch, *, network: bool
    ) -> Virtualenv:
        """The virtualenv for these packages, built when there is none. Raises NotBuiltError, OSError.

        What `fetch` raises passes through.
        """
        recipe = make_recipe(packages, python, _platform(), self._builder.sources)
        key, asked = recipe.key, time.monotonic()
        turn = self._locks.setdefault(key, asyncio.Lock())
        async with turn:
            failed_at, why = self._failures.get(key, (0.0, ""))
            if failed_at > asked:
                raise NotBuiltError(why)
            await asyncio.to_thread(self._make_folders)
            building = await lock(self._lock_path(key, "build"))
            try:
                found, problem = await asyncio.to_thread(read_verified, self._folder / key)
                if found is None:
                    found = await self._make(key, recipe, fetch, network)
                return self._hold(key, found, problem)
            except NotBuiltError as error:
                self._failures[key] = (time.monotonic(), str(error))
                raise
            finally:
                unlock(building)

    def release(self, virtualenv: Virtualenv) -> None:
        """Let it be evicted; called once for each that was given."""
        unlock(virtualenv.holder)

    async def prune(self) -> None:
        """Remove virtualenvs that no run uses, the longest unused first, until all fit the limit."""
        await asyncio.to_thread(self._prune)

    def _hold(self, key: str, found: Record, problem: str) -> Virtualenv:
        path = self._lock_path(key, "use")
        holder = try_lock(path, shared=True)
        # Only a pruner locks it for itself, and it holds the lock of builds then.
        assert holder is not None
        os.utime(path)
        notes = (f"packages: this host's virtualenv was not used and is built again: {problem}",)
        return Virtualenv(
            key, self._folder / key / VENV, found.python, found.packages, holder, notes if problem else ()
        )

    async def _make(self, key: str, recipe: Recipe, fetch: Fetch, network: bool) -> Record:
        """Build it in a folder of its own, and move it into place when it is whole."""
        await asyncio.to_thread(self._remove, key)
        draft = self._folder / f"{DRAFT}{key}-{new_ulid()}"
        began = time.monotonic()
        downloads = await lock(self._folder / LOCKS / DOWNLOADS, shared=True)
        try:
            draft.mkdir(mode=0o700)
            place = BuildPlace(draft, await fetch(draft), draft / "out", self._folder / DOWNLOADS)
            place.out.mkdir(mode=0o700)
            await self._builder.build(recipe, place, network=network)
            record = await asyncio.to_thread(write_record, place.out, recipe.python.version)
            await asyncio.to_thread(os.rename, place.out, self._folder / key)
        except NotKeptError as error:
            raise NotBuiltError(f"the virtualenv cannot be kept: {error}") from error
        finally:
            unlock(downloads)
            await asyncio.to_thread(remove_folder, draft)
        log.info(
            "virtualenv.built", key=key[:12], seconds=round(time.monotonic() - began, 1), bytes=record.bytes
        )
        return record

    def _make_folders(self) -> None:
        for folder in (self._folder, self._folder / LOCKS, self._folder / DOWNLOADS):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _lock_path(self, key: str, kind: str) -> Path:
        return self._folder / LOCKS / f"{key}.{kind}"

    def _remove(self, key: str) -> None:
        """Remove a virtualenv and what killed workers left of it, while its lock of builds is held."""
        place = self._folder / key
        if place.exists() or place.is_symlink():
            away = self._folder / f"{DRAFT}{key}-away-{new_ulid()}"
            os.rename(place, away)
        for path in self._folder.glob(f"{DRAFT}{key}-*"):
            if path.is_symlink():
                path.unlink()
            remove_folder(path)

    def _prune(self) -> None:
        if not self._folder.is_dir():
            return
        for key in {path.name[len(DRAFT) :][:KEY_LENGTH] for path in self._folder.glob(f"{DRAFT}*")}:
            with self._locked_unused(key) as free:
                if free and not (self._folder / key).exists():
                    self._remove(key)
        kept = sorted(self._sizes())
        total = sum(size for _, size, _ in kept)
        for _, size, key in kept:
            if total <= self._limit:
                return
            with self._locked_unused(key) as free:
                if free:
                    log.info("virtualenv.evicted", key=key[:12], bytes=size)
                    self._remove(key)
                    total -= size
        self._prune_downloads(self._limit - total)

    @contextlib.contextmanager
    def _locked_unused(self, key: str) -> Iterator[bool]:
        """Lock a virtualenv if nobody builds or uses it; whether it is locked."""
        held: list[int] = []
        # In this order, and never the second alone: a run that has locked builds finds the other free.
        for kind in ("build", "use"):
            if (descriptor := try_lock(self._lock_path(key, kind))) is None:
                break
            held.append(descriptor)
        try:
            yield len(held) == 2
        finally:
            for descriptor in held:
                unlock(descriptor)

    def _sizes(self) -> Iterator[tuple[float, int, str]]:
        """Last use, bytes and key of each virtualenv."""
        for entry in os.scandir(self._folder):
            if len(entry.name) == KEY_LENGTH and entry.is_dir(follow_symlinks=False):
                use = self._lock_path(entry.name, "use")
                used = use.stat().st_mtime if use.exists() else 0.0
                yield used, _size(Path(entry.path)), entry.name

    def _prune_downloads(self, room: int) -> None:
        """Remove what was downloaded when there is no room for it; a later build downloads it again."""
        folder, held = self._folder / DOWNLOADS, try_lock(self._folder / LOCKS / DOWNLOADS)
        if held is None:
            return
        try:
            if _size(folder) > max(0, room):
                remove_folder(folder)
        finally:
            unlock(held)


def _size(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total


def _platform() -> str:
    return f"{platform.machine()} {'-'.join(platform.libc_ver())}"
