"""Archived batches of a run in order of arrival after a position, read one row group at a time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core import segments, steps
from runspine.services.telemetry.core.arrays import numpy
from runspine.services.telemetry.core.rows import LOGS, METRICS, STEPS, Arrival
from runspine.services.telemetry.core.step_counter import PlacedBlock
from runspine.services.telemetry.core.visibility import Cutoffs, visible_part
from runspine.services.telemetry.edges.segment_store import SegmentStore, group_range
from runspine.wire.v1.manifest_pb2 import Segment
from runspine.wire.v1.telemetry_pb2 import Batch, StepBatch

# Decoded at a time: a segment may hold a gigabyte of log lines.
PIECE_BYTES = 4 << 20
# Enough to hold the last MAX_AHEAD batches of a worker.
CONTEXT_GROUPS = 16
CONTEXT_ROWS = 1 << 17


class _NextBatch(NamedTuple):
    """The next batch of one variant."""

    position: int
    attempt: int
    items: list[PlacedBlock]


class ArchivedHistory:
    """Reads batches from segments."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store

    async def arrivals(
        self, kind: str, found: Sequence[Segment], after: int, cutoffs: Cutoffs
    ) -> AsyncGenerator[Arrival, None]:
        """Batches after a position. Raises SegmentGoneError when a segment was replaced meanwhile."""
        later = [segment for segment in found if segment.last > after]
        if kind == STEPS:
            async for arrival in self._steps(later, after, cutoffs):
                yield arrival
            return
        for segment in later:
            async for table in self._tables(segment, after):
                for arrival in await asyncio.to_thread(_decoded, kind, table):
                    visible = visible_part(arrival, cutoffs) if arrival.position > after else None
                    if visible:
                        yield visible

    async def context_start(self, found: Sequence[Segment], after: int) -> int:
        """A position before `after` with at least CONTEXT_GROUPS row groups or CONTEXT_ROWS rows between."""
        groups, rows, start = 0, 0, after
        for segment in reversed([segment for segment in found if segment.first <= after]):
            footer = await self._store.footer(segment.key, segment.size)
            for group in reversed(range(footer.num_row_groups)):
                first = group_range(footer, group, "position")[0]
                if first > after:
                    continue
                groups, rows, start = groups + 1, rows + footer.row_group(group).num_rows, first - 1
                if groups >= CONTEXT_GROUPS or rows >= CONTEXT_ROWS:
                    return start
        return 0 if not groups else start

    async def _steps(self, found: Sequence[Segment], after: int, cutoffs: Cutoffs) -> AsyncIterator[Arrival]:
        """Batches of steps. The blocks of one batch may lie in several variants and are merged again."""
        variants: dict[str, list[Segment]] = defaultdict(list)
        for segment in found:
            variants[segment.variant].append(segment)
        sources = [self._variant(members, after, cutoffs) for members in variants.values()]
        try:
            heads = [await anext(source, None) for source in sources]
            while alive := [head for head in heads if head]:
                first = min(head.position for head in alive)
                items: list[PlacedBlock] = []
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
    ) -> AsyncGenerator[_NextBatch, None]:
        for segment in members:
            async for table in self._tables(segment, after):
                placed = await asyncio.to_thread(_blocks, table, cutoffs)
                head: _NextBatch | None = None
                for item in placed:
                    if item.position <= after:
                        continue
                    if head and head.position == item.position:
                        head.items.append(item)
                        continue
                    if head:
                        yield head
                    head = _NextBatch(item.position, item.attempt, [item])
                if head:
                    yield head

    async def _tables(self, segment: Segment, after: int) -> AsyncIterator[pa.Table]:
        """Parts of a segment that hold whole batches."""
        if segment.kind == METRICS:
            # Rows of metrics are sorted by series: only the whole segment holds whole batches.
            yield await self._store.whole(segment)
            return
        footer = await self._store.footer(segment.key, segment.size)
        wanted = [
            group
            for group in range(footer.num_row_groups)
            if group_range(footer, group, "position")[1] > after
        ]
        rest: pa.Table | None = None
        async for table in self._parts(segment, wanted):
            if rest is not None:
                table = pa.concat_tables([rest, table]).unify_dictionaries()
            positions = numpy(table, "position")
            cut = int(np.searchsorted(positions, positions[-1]))
            rest = table.slice(cut)
            if cut:
                yield table.slice(0, cut)
        if rest is not None:
            yield rest

    async def _parts(self, segment: Segment, wanted: Sequence[int]) -> AsyncIterator[pa.Table]:
        if segment.kind == LOGS:
            async for piece in self._store.pieces(segment, wanted, PIECE_BYTES):
                yield piece
            return
        for group in wanted:
            [(_, table)] = await self._store.groups(segment, None, [group])
            yield table


def _decoded(kind: str, table: pa.Table) -> list[Arrival]:
    return list(segments.arrivals_of(kind, table))


def _blocks(table: pa.Table, cutoffs: Cutoffs) -> list[PlacedBlock]:
    return list(steps.decode(steps.visible_steps(table, cutoffs)))
