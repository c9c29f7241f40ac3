"""Every point of a run's series, one row group at a time, so that memory does not grow with the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runspine.eventlog.connection import NatsUnreachableError
from runspine.services.telemetry.core.levels import COLUMNS
from runspine.services.telemetry.core.points import is_wanted, point_blocks
from runspine.services.telemetry.edges.queries import kinds_of
from runspine.services.telemetry.edges.run_views import RunView, RunViews
from runspine.services.telemetry.edges.segment_store import SegmentGoneError, SegmentStore, groups_of
from runspine.wire.v1.manifest_pb2 import Segment
from runspine.wire.v1.telemetry_pb2 import PointBlock, ReadPointsResponse

TAIL_ROWS = 65_536


class PointReader:
    """Reads the points of a run's series from segments, then from the stream."""

    def __init__(self, views: RunViews, store: SegmentStore) -> None:
        self._views = views
        self._store = store

    async def read(
        self, run_id: str, names: Sequence[str], with_times: bool, after: int
    ) -> AsyncGenerator[ReadPointsResponse, None]:
        """The points after a position. A message with a position can be resumed from."""
        wanted = frozenset(names)
        view = await self._views.view(run_id, *kinds_of(names))
        try:
            for segment, complete in _in_order(view, after):
                async for table in self._tables(segment, wanted, after):
                    blocks = await asyncio.to_thread(
                        point_blocks, segment.kind, table, wanted, view.cutoffs, with_times
                    )
                    yield ReadPointsResponse(blocks=blocks)
                if complete:
                    yield ReadPointsResponse(position=complete)
        except SegmentGoneError as error:
            # It was replaced by a larger one: a resumed call reads that.
            raise NatsUnreachableError(f"the archive changed during the read: {error}") from error
        for block in _tail_blocks(view, wanted, with_times, after):
            yield ReadPointsResponse(blocks=[block])
        if end := max((a.position for found in view.tails.values() for a in found), default=0):
            yield ReadPointsResponse(position=end)

    async def _tables(
        self, segment: Segment, names: Collection[str], after: int
    ) -> AsyncGenerator[pa.Table, None]:
        """The row groups of a segment that hold series of these names, without rows up to `after`."""
        ranges = [
            (int(s.row), int(s.row + s.points))
            for s in segment.series
            if is_wanted(segment.kind, s.name, names)
        ]
        if not ranges:
            return
        partly = segment.first <= after
        columns = COLUMNS[segment.kind] + (["position"] if partly else [])
        footer = await self._store.footer(segment.key, segment.size)
        for group, _ in groups_of(footer, ranges):
            [(_, table)] = await self._store.groups(segment, columns, [group])
            yield table.filter(pc.greater(table.column("position"), after)) if partly else table


def _in_order(view: RunView, after: int) -> Iterator[tuple[Segment, int]]:
    """Segments with rows after a position, by their first one; each with the position up to which everything
    has been read after it, or 0 when a later segment begins before that."""
    found = [s for segments in view.archived.values() for s in segments if s.last > after]
    found.sort(key=lambda segment: (segment.first, segment.last))
    last = 0
    for number, segment in enumerate(found, 1):
        last = max(last, segment.last)
        is_complete = number == len(found) or found[number].first > last
        yield segment, last if is_complete else 0


def _tail_blocks(view: RunView, names: Collection[str], with_times: bool, after: int) -> Iterator[PointBlock]:
    """Points that are not archived yet."""
    for kind, tables in view.tables.items():
        for table in tables:
            table = table.filter(pc.greater(table.column("position"), after))
            for start in range(0, table.num_rows, TAIL_ROWS):
                piece = table.slice(start, TAIL_ROWS)
                yield from point_blocks(kind, piece, names, view.cutoffs, with_times)
