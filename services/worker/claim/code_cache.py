"""Cache of code on this host: files by digest, fetched once, verified at every use, evicted oldest first."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from runspine.code.tree import DIGEST, CodeTree, CodeTreeError, TreeEntry, parse_tree
from runspine.services.worker.artifacts.code_folder import work_folder
from runspine.services.worker.artifacts.resume import CheckpointUnconfirmedError
from runspine.services.worker.claim.working_copy import cached_files, copy_files, finish_copy, remove_folder
from runspine.storage.blobs import Blobs, NotWrittenError
from runspine.storage.keys import code_key
from runspine.storage.missing import MissingObjects
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.spec_pb2 import Code

log = structlog.get_logger()

MAX_CONCURRENT = 8
# Rounds of copying: a file of the cache may turn out to be damaged, or be evicted meanwhile.
MAX_ROUNDS = 4
# Files used in this time are not evicted.
FRESH_SECONDS = 600.0
EVICT_SECONDS = 60.0
Report = Callable[[str], None]


class CodeCache:
    """Makes working copies of code trees from S3."""

    def __init__(self, folder: Path, blobs: Blobs, missing: MissingObjects, limit: int) -> None:
        self._files = folder / "files"
        self._trees = folder / "trees"
        self._blobs = blobs
        self._missing = missing
        self._limit = limit
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._evicted_at = 0.0

    async def materialise(self, code: Code, run_dir: Path, report: Report) -> tuple[Path, list[str]]:
        """The folder in which the program starts, in a verified working copy, and notes for the run's log.

        Raises CodeTreeError, and BlobsUnavailableError or CheckpointUnconfirmedError when waiting may help.
        """
        notes: list[str] = []
        draft, target = run_dir / ".work-draft", work_folder(run_dir)
        lock = self._locks.setdefault(code.tree, asyncio.Lock())
        async with lock:
            try:
                await asyncio.to_thread(self._make_folders, run_dir, draft)
                tree = await self._tree(code.tree)
                await self._copy(tree, draft, report, notes)
                await asyncio.to_thread(finish_copy, tree.entries, draft, target, code.directory)
            except OSError as error:
                raise CodeTreeError(f"its working copy cannot be written: {error}") from error
            finally:
                await asyncio.to_thread(remove_folder, draft)
        await self._evict()
        return target / code.directory, notes

    def _make_folders(self, run_dir: Path, draft: Path) -> None:
        for folder in (self._files, self._trees, run_dir):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_folder(draft)
        draft.mkdir(mode=0o700)

    async def _tree(self, digest: str) -> CodeTree:
        if not DIGEST.match(digest):
            raise CodeTreeError(f"{digest[:80]!r} is not the SHA-256 of a tree")
        data = await asyncio.to_thread(_read_verified, self._trees / digest, digest)
        if data is None:
            data = await self._blobs.get(code_key(digest, tree=True))
            if data is None:
                await self._confirm_lost(digest, f"tree {digest[:12]}")
                raise CodeTreeError(f"its tree {digest[:12]} is not in S3: submit it again from its folder")
            if hashlib.sha256(data).hexdigest() != digest:
                raise CodeTreeError(
                    f"its tree {digest[:12]} is damaged in S3: submit it again from its folder"
                )
            await asyncio.to_thread(_write_verified, self._trees / digest, data)
        return await asyncio.to_thread(parse_tree, data)

    async def _copy(self, tree: CodeTree, draft: Path, report: Report, notes: list[str]) -> None:
        left: Sequence[TreeEntry] = tree.files
        for _ in range(MAX_ROUNDS):
            why = await asyncio.to_thread(copy_files, left, self._files, draft)
            if not why:
                await asyncio.to_thread(self._touch, tree)
                return
            for text in filter(None, why.values()):
                log.warning("code.damaged", tree=tree.digest, file=text)
                notes.append(f"code: this host's copy was changed ({text}): it is fetched again")
            left = [entry for entry in left if entry.digest in why]
            await self._fetch({entry.digest: entry for entry in left}, report)
        raise CodeTreeError(f"its files do not stay in the cache of this worker: {self._files}")

    async def _fetch(self, wanted: dict[str, TreeEntry], report: Report) -> None:
        """Fetch files into the cache. Raises CodeTreeError, BlobsUnavailableError."""
        turns = asyncio.Semaphore(MAX_CONCURRENT)
        done = 0

        async def one(entry: TreeEntry) -> None:
            nonlocal done
            async with turns:
                await self._fetch_one(entry)
                done += 1
                if done % 100 == 0:
                    report(f"its code is being fetched: {done:,} of {len(wanted):,} files")

        tasks = [asyncio.create_task(one(entry)) for entry in wanted.values()]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_and_wait(*tasks)

    async def _fetch_one(self, entry: TreeEntry) -> None:
        # Two attempts with different trees may fetch the same file: each into a draft of its own.
        draft = self._files / f".{entry.digest}.{os.getpid()}.{id(entry)}"
        try:
            try:
                found = await self._blobs.get_file(code_key(entry.digest), draft)
            except NotWrittenError as error:
                raise CodeTreeError(f"this worker's disk cannot take its code: {error}") from error
            if not found:
                await self._confirm_lost(entry.digest, entry.path)
                raise CodeTreeError(f"{entry.path} is gone from S3: submit the run again from its folder")
            data = await asyncio.to_thread(_read_verified, draft, entry.digest)
            if data is None:
                raise CodeTreeError(f"{entry.path} is damaged in S3 (its SHA-256 differs)")
            await asyncio.to_thread(_publish, draft, self._files / entry.digest)
            self._missing.settled(entry.digest)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    async def _confirm_lost(self, digest: str, name: str) -> None:
        """Return when an object is lost. Raises CheckpointUnconfirmedError, BlobsUnavailableError."""
        if not await self._missing.confirmed(digest):
            raise CheckpointUnconfirmedError(
                f"{name} of its code is not in S3; it is requested again before it is given up"
            )

    def _touch(self, tree: CodeTree) -> None:
        for path in (self._trees / tree.digest, *(self._files / entry.digest for entry in tree.files)):
            with contextlib.suppress(OSError):
                os.utime(path)

    async def _evict(self) -> None:
        if time.monotonic() - self._evicted_at > EVICT_SECONDS:
            self._evicted_at = time.monotonic()
            await asyncio.to_thread(self._evict_oldest)

    def _evict_oldest(self) -> None:
        kept = sorted([*cached_files(self._files), *cached_files(self._trees)])
        total = sum(size for _, size, _ in kept)
        for used, size, path in kept:
            if total <= self._limit or time.time() - used < FRESH_SECONDS:
                return
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size


def _read_verified(path: Path, digest: str) -> bytes | None:
    """A file's bytes when they have this digest; None otherwise."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == digest else None


def _write_verified(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    _publish(draft, path)


def _publish(draft: Path, path: Path) -> None:
    """Move a verified file into the cache, read-only."""
    draft.chmod(0o400)
    os.replace(draft, path)
