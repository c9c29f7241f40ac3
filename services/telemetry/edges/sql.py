"""Read-only SQL over a run's tables, in a process of its own that can be ended.

The segments are copied to a local folder, and DuckDB in a child process may read those files and
nothing else. One question at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from runspine.grpc_errors import InvalidInput
from runspine.ranged_blobs import RangedBlobs
from runspine.run import Refused
from runspine.wire.v1.manifest_pb2 import Segment
from services.telemetry.core.rows import KINDS
from services.telemetry.edges.segment_store import Gone
from services.telemetry.edges.views import View, Views

PIECE = 1 << 20
BAD_QUERY = 3


class _Flaw(NamedTuple):
    field: str
    message: str


class Sql:
    def __init__(
        self, views: Views, blobs: RangedBlobs, folder: Path, disk_bytes: int, memory_mib: int, seconds: float
    ) -> None:
        self._views = views
        self._blobs = blobs
        self._folder = folder
        self._disk = disk_bytes
        self._memory = memory_mib
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def query(self, run_id: str, query: str, max_rows: int) -> AsyncGenerator[bytes, None]:
        """The answer as an Arrow stream, in pieces."""
        kinds = [kind for kind in KINDS if re.search(rf"\b{kind}\b", query)]
        async with self._turn:
            view = await self._views.of(run_id, *kinds)
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

    async def _files(self, view: View, kind: str, scratch: Path) -> list[list[str]]:
        """Local copies, by variant; what is not archived yet is written beside them."""
        self._tidy(sum(segment.size for segment in view.archived[kind]))
        variants: dict[str, list[str]] = {}
        for segment in view.archived[kind]:
            variants.setdefault(segment.variant, []).append(str(await self._local(segment)))
        for number, table in enumerate(view.tables[kind]):
            path = scratch / f"{kind}-{number}.parquet"
            await asyncio.to_thread(pq.write_table, table, path)
            variants.setdefault(f"tail {number}", []).append(str(path))
        return list(variants.values())

    async def _local(self, segment: Segment) -> Path:
        path = self._folder / segment.sha256.hex()
        if path.exists():
            await asyncio.to_thread(path.touch)
            return path
        draft = path.with_suffix(".part")
        if not await self._blobs.get_file(segment.key, draft):
            raise Gone(segment.key)
        draft.rename(path)
        return path

    def _tidy(self, needed: int) -> None:
        """Make room, the least used first."""
        if needed > self._disk:
            raise Refused(
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
                while piece := await asyncio.to_thread(os.read, process.stdout.fileno(), PIECE):
                    yield piece
                code = await asyncio.to_thread(process.wait)
        except TimeoutError as error:
            raise Refused(f"the query took longer than {self._seconds:g} s") from error
        finally:
            # Its end also ends a thread that still waits for its words.
            process.kill()
            await asyncio.to_thread(process.wait)
            process.stdout.close()
        said = (scratch / "complaint").read_text(errors="replace").strip()
        if code == BAD_QUERY:
            raise InvalidInput([_Flaw("query", said)])
        if code:
            raise Refused(
                f"the query ended with {code}: {said[-300:] or 'it needs more memory than it may have'}"
            )


def _start(scratch: Path) -> subprocess.Popen[bytes]:
    """By Python's own means, which use vfork. Started by the event loop, which forks, the child of this
    process with its many threads ended now and then with a segmentation fault."""
    with (scratch / "complaint").open("wb") as complaint:
        return subprocess.Popen(
            [sys.executable, "-m", "services.telemetry.sql_child", str(scratch / "task.json")],
            # Nothing of this service's environment, which holds its passwords.
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaint,
        )
