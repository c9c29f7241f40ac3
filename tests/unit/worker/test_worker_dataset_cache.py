from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, cast

from runspine.services.worker.claim.cache_reports import CacheReports
from runspine.services.worker.claim.dataset_cache import DatasetCache
from runspine.wire.v1.run_pb2 import CachePrune

OLD, USED, FRESH = ("a" * 64, "b" * 64, "c" * 64)


def cache_with(folder: Path) -> DatasetCache:
    now = time.time()
    for digest, age in ((OLD, 900), (USED, 600), (FRESH, 1)):
        (folder / digest / "data").mkdir(parents=True)
        (folder / digest / "data" / "file").write_bytes(b"x" * 100)
        os.utime(folder / digest, (now - age, now - age))
    (folder / f".{OLD}.1.part").mkdir()
    return DatasetCache(folder, cast(Any, None), cast(Any, None), 1000)


async def test_the_cache_is_reported_and_pruned_except_for_what_is_in_use(tmp_path: Path) -> None:
    cache = cache_with(tmp_path)
    found = cache.contents()
    assert [(each.digest, each.bytes) for each in found] == [(FRESH, 100), (USED, 100), (OLD, 100)]
    assert await cache.prune({FRESH}, set(), 60.0) == []
    assert await cache.prune({"d" * 64, f"../{OLD}"}, set(), 60.0) == []
    assert await cache.prune(None, {USED}, 60.0) == [OLD]
    assert {each.digest for each in cache.contents()} == {USED, FRESH}
    assert DatasetCache(tmp_path / "none", cast(Any, None), cast(Any, None), 1).contents() == []


async def test_a_request_that_cannot_be_read_or_comes_too_often_is_dropped(tmp_path: Path) -> None:
    reports = CacheReports(cast(Any, None), "w1", cache_with(tmp_path), set)
    reports._receive(b"\xff\xff")
    for _ in range(200):
        reports._receive(CachePrune(all=True).SerializeToString())
    assert reports._requests.qsize() == 100
    await asyncio.wait_for(reports._prune(CachePrune(digests=[OLD])), 10)
    assert not (tmp_path / OLD).exists()
