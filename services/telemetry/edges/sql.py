"""Read-only SQL over a run's tables, in a child process that can be killed.

The segments are copied to a local folder, and DuckDB in the child process can read only those files.
Each caller has one query at a time, and callers take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from runspine.domain.run import RunRefusedError
from runspine.errors import Violation
from runspine.rpc.auth import caller
from runspine.rpc.errors import InvalidInputError
from runspine.services.telemetry.core.rows import KINDS
from runspine.services.telemetry.edges.fair_slots import FairSlots
from runspine.services.telemetry.edges.run_views import RunView, RunViews
from runspine.services.telemetry.edges.segment_store import SegmentGoneError
from runspine.storage.ranged_blobs import RangedBlobs
from runspine.wire.v1.manifest_pb2 import Segment

# A child's task from its folder and the local copies of segments by key.
BuildTask = Callable[[Path, Mapping[str, str]], dict[str, Any]]
CHUNK_BYTES = 1 << 20
MAX_CONCURRENT = 8
BAD_QUERY = 3


class SqlRunner:
    """Runs SQL queries in child processes over local copies of segments."""

    def __init__(
        self,
        views: RunViews,
        blobs: RangedBlobs,
        folder: Path,
        disk_bytes: int,
        memory_mib: int,
        seconds: float,
        slots: FairSlots,
    ) -> None:
        self._views = views
        self._blobs = blobs
        self._folder = folder
        self._disk = disk_bytes
        self._memory = memory_mib
        self._seconds = seconds
        self._slots = slots

    async def query(self, run_id: str, query: str, max_rows: int) -> AsyncGenerator[bytes, None]:
        """The result as chunks of an Arrow stream."""
        kinds = [kind for kind in KINDS if re.search(rf"\b{kind}\b", query)]
        async with self._slots.slot(caller.get()):
            view = await self._views.view(run_id, *kinds)
            with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
                files = {kind: await self._files(view, kind, Path(scratch)) for kind in kinds}
                task = {
                    "files": files,
                    "cutoffs": dict(view.cutoffs),
                    "query": query,
                    "max_rows": max_rows,
                    "memory_mib": self._memory,
                    "scratch": scratch,
                }
                async for piece in self._child(task):
                    yield piece

    async def query_files(
        self, segments: Sequence[Segment], build: BuildTask, query: str, max_rows: int
    ) -> AsyncGenerator[bytes, None]:
        """The result of a query over the files that `build` names, given a folder and the local copies of
        segments by their keys."""
        async with self._slots.slot(caller.get()):
            with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
                local = await self._copies(segments, Path(scratch))
                task = await asyncio.to_thread(build, Path(scratch), local)
                limits = {"max_rows": max_rows, "memory_mib": self._memory, "scratch": scratch}
                async for piece in self._child({**task, **limits, "query": query}):
                    yield piece

    async def _copies(self, segments: Sequence[Segment], scratch: Path) -> dict[str, str]:
        """Local copies by key, several fetched at a time. Segments with the same bytes share a copy."""
        unique = {segment.sha256: segment for segment in segments}
        self._make_room(sum(segment.size for segment in unique.values()))
        room = asyncio.Semaphore(MAX_CONCURRENT)

        async def one(segment: Segment) -> tuple[bytes, str]:
            async with room:
                return segment.sha256, str(await self._local(segment, scratch))

        found = dict(await asyncio.gather(*(one(segment) for segment in unique.values())))
        return {segment.key: found[segment.sha256] for segment in segments}

    async def _files(self, view: RunView, kind: str, scratch: Path) -> list[list[str]]:
        """Local copies of the segments by variant, with files of the batches that are not archived yet."""
        self._make_room(sum(segment.size for segment in view.archived[kind]))
        variants: dict[str, list[str]] = {}
        for segment in view.archived[kind]:
            variants.setdefault(segment.variant, []).append(str(await self._local(segment, scratch)))
        for number, table in enumerate(view.tables[kind]):
            path = scratch / f"{kind}-{number}.parquet"
            await asyncio.to_thread(pq.write_table, table, path)
            variants.setdefault(f"tail {number}", []).append(str(path))
        return list(variants.values())

    async def _local(self, segment: Segment, scratch: Path) -> Path:
        """A link to the local copy, in the folder of the query: another query may make room meanwhile."""
        path = self._folder / segment.sha256.hex()
        own = scratch / path.name
        try:
            await asyncio.to_thread(os.link, path, own)
            await asyncio.to_thread(os.utime, own)
        except FileNotFoundError:
            if not await self._blobs.get_file(segment.key, own):
                raise SegmentGoneError(segment.key) from None
            with contextlib.suppress(FileExistsError):
                await asyncio.to_thread(os.link, own, path)
        except FileExistsError:
            pass  # the query names it twice
        return own

    def _make_room(self, needed: int) -> None:
        """Remove local copies, the least recently used first, until the needed bytes fit."""
        if needed > self._disk:
            raise RunRefusedError(
                f"this table takes {needed >> 20} MiB, more than the {self._disk >> 20} MiB "
                "that RUNSPINE_SQL_DISK_MIB allows"
            )
        held = sorted((p for p in self._folder.iterdir() if p.is_file()), key=lambda p: p.stat().st_mtime)
        total = sum(p.stat().st_size for p in held)
        for path in held:
            if total + needed <= self._disk:
                return
            total -= path.stat().st_size
            path.unlink()

    async def _child(self, task: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        scratch = Path(task["scratch"])
        await asyncio.to_thread((scratch / "task.json").write_text, json.dumps(task))
        process = await asyncio.to_thread(_start, scratch)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._seconds):
                while piece := await asyncio.to_thread(os.read, process.stdout.fileno(), CHUNK_BYTES):
                    yield piece
                code = await asyncio.to_thread(process.wait)
        except TimeoutError as error:
            raise RunRefusedError(f"the query took longer than {self._seconds:g} s") from error
        finally:
            # Killing the child also ends a thread that still reads from its stdout.
            process.kill()
            await asyncio.to_thread(process.wait)
            process.stdout.close()
        stderr = (scratch / "stderr").read_text(errors="replace").strip()
        if code == BAD_QUERY:
            raise InvalidInputError([Violation("query", stderr)])
        if code:
            raise RunRefusedError(
                f"the query ended with {code}: {stderr[-300:] or 'it needs more memory than it may have'}"
            )


def _start(scratch: Path) -> subprocess.Popen[bytes]:
    """Start the child with subprocess, which uses vfork. The event loop's way forks, and a forked child of
    this process with its many threads sometimes crashed with a segmentation fault."""
    with (scratch / "stderr").open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "runspine.services.telemetry.sql_child", str(scratch / "task.json")],
            # This service's environment holds passwords: the child does not inherit it.
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
