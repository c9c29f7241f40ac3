"""Writes a series of any length directly into the archive, with two spikes that no chart may lose."""

from __future__ import annotations

import asyncio

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core.compaction import MAX_ROWS
from runspine.services.telemetry.core.segments import NewSegment, make_segment
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.services.telemetry.edges.segment_store import SegmentStore

NAME = "losses/value"
LOW, HIGH = -1000.0, 2000.0


def values_of(first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Noise that depends only on the position."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    mixed = (numbers * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    return mixed.astype(np.float64) / 2**53 + np.sin(numbers.astype(np.float64) / 1e6)


def spikes(total: int) -> tuple[int, int]:
    """Positions of the lowest and the highest value."""
    return total // 3 + 17, total // 7 * 5 + 3


def piece(run_id: str, first: int, count: int, total: int) -> NewSegment:
    values = values_of(first, count)
    for at, value in zip(spikes(total), (LOW, HIGH), strict=True):
        if first <= at < first + count:
            values[at - first] = value
    numbers = np.arange(first, first + count, dtype=np.uint64)
    table = pa.table(
        {
            "name": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([NAME])),
            "attempt": pa.array(np.ones(count, np.uint32)),
            # As if a batch held 1,000 points.
            "position": pa.array(numbers // np.uint64(1000) + np.uint64(1)),
            "block": pa.array(np.zeros(count, np.uint32)),
            "step": pa.array(numbers),
            "value": pa.array(values),
            "at": pa.array(numbers.astype(np.int64) * 50 + 1_794_800_000_000_000),
        }
    )
    return make_segment(run_id, "metrics", "", table)


async def put_series(chain: ManifestChain, store: SegmentStore, run_id: str, total: int) -> int:
    """Write the series; return its size in bytes."""
    made: list[NewSegment] = []
    for first in range(0, total, MAX_ROWS):
        part = await asyncio.to_thread(piece, run_id, first, min(MAX_ROWS, total - first), total)
        await store.put(part)
        made.append(NewSegment(part.segment, {}))
    await chain.load()
    # The cursor stays: the series was never on the stream.
    manifest = chain.archive.next(
        cursor=chain.archive.cursor, at=0, writer="bench", added=[part.segment for part in made]
    )
    await chain.commit(manifest)
    return sum(part.segment.size + part.segment.levels_size for part in made)
