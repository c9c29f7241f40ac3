"""Archived batches of a run in order of arrival, from a position on, a row group at a time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runspine.wire.v1.manifest_pb2 import Segment
from runspine.wire.v1.telemetry_pb2 import Batch, StepBatch
from services.telemetry.core import segments, steps
from services.telemetry.core.arrays import numpy
from services.telemetry.core.counting import Placed
from services.telemetry.core.rows import METRICS, STEPS, Arrival
from services.telemetry.core.visibility import Cutoffs, shown
from services.telemetry.edges.segment_store import SegmentStore, group_range


class _Head(NamedTuple):
    """The next batch of one variant."""

    position: int
    attempt: int
    items: list[Placed]


class History:
    def __init__(self, store: SegmentStore) -> None:
        self._store = store

    async def arrivals(
        self, kind: str, found: Sequence[Segment], after: int, cutoffs: Cutoffs
    ) -> AsyncGenerator[Arrival, None]:
        """Batches after a position. Raises Gone when a segment was replaced meanwhile."""
        later = [segment for segment in found if segment.last > after]
        if kind == STEPS:
            async for arrival in self._steps(later, after, cutoffs):
                yield arrival
            return
        for segment in later:
            async for table in self._tables(segment, after):
                for arrival in await asyncio.to_thread(_decoded, kind, table):
                    visible = shown(arrival, cutoffs) if arrival.position > after else None
                    if visible:
                        yield visible

    async def _steps(self, found: Sequence[Segment], after: int, cutoffs: Cutoffs) -> AsyncIterator[Arrival]:
        """Blocks of one batch may lie in several variants: they are put together again."""
        variants: dict[str, list[Segment]] = defaultdict(list)
        for segment in found:
            variants[segment.variant].append(segment)
        sources = [self._variant(members, after, cutoffs) for members in variants.values()]
        try:
            heads = [await anext(source, None) for source in sources]
            while alive := [head for head in heads if head]:
                first = min(head.position for head in alive)
                items: list[Placed] = []
                for at, head in enumerate(heads):
                    if head and head.position == first:
                        items += head.items
                        heads[at] = await anext(sources[at], None)
                items.sort(key=lambda item: item.order)
                batch = StepBatch(blocks=[item.block for item in items])
                yield Arrival(first, Batch(attempt=items[0].attempt, steps=batch))
        finally:
            for source in sources:
                await source.aclose()

    async def _variant(
        self, members: Sequence[Segment], after: int, cutoffs: Cutoffs
    ) -> AsyncGenerator[_Head, None]:
        for segment in members:
            async for table in self._tables(segment, after):
                placed = await asyncio.to_thread(_blocks, table, cutoffs)
                head: _Head | None = None
                for item in placed:
                    if item.position <= after:
                        continue
                    if head and head.position == item.position:
                        head.items.append(item)
                        continue
                    if head:
                        yield head
                    head = _Head(item.position, item.attempt, [item])
                if head:
                    yield head

    async def _tables(self, segment: Segment, after: int) -> AsyncIterator[pa.Table]:
        """Pieces that hold whole batches."""
        if segment.kind == METRICS:
            # Its rows are sorted by series: batches are whole only in the whole.
            yield await self._store.whole(segment)
            return
        footer = await self._store.footer(segment.key, segment.size)
        rest: pa.Table | None = None
        for group in range(footer.num_row_groups):
            if group_range(footer, group, "position")[1] <= after:
                continue
            [(_, table)] = await self._store.groups(segment, None, [group])
            if rest is not None:
                table = pa.concat_tables([rest, table]).unify_dictionaries()
            positions = numpy(table, "position")
            cut = int(np.searchsorted(positions, positions[-1]))
            rest = table.slice(cut)
            if cut:
                yield table.slice(0, cut)
        if rest is not None:
            yield rest


def _decoded(kind: str, table: pa.Table) -> list[Arrival]:
    return list(segments.arrivals_of(kind, table))


def _blocks(table: pa.Table, cutoffs: Cutoffs) -> list[Placed]:
    return list(steps.decode(steps.shown(table, cutoffs)))
