"""Log lines of an attempt by their numbers: only the row groups that hold them are read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import aclosing

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runspine.services.telemetry.core.rows import LOGS, decode_logs
from runspine.services.telemetry.edges.archived_history import PIECE_BYTES
from runspine.services.telemetry.edges.run_views import RunView, RunViews
from runspine.services.telemetry.edges.segment_store import SegmentStore, group_range, has_range
from runspine.wire.v1.manifest_pb2 import Segment
from runspine.wire.v1.telemetry_pb2 import AttemptLines, LogLine, ReadLogLinesResponse

# Text in an answer: gRPC refuses messages of more than 4 MiB.
MAX_BYTES = 2 << 20


class LogRanges:
    """Reads ranges of log lines from segments and from the stream."""

    def __init__(self, views: RunViews, store: SegmentStore) -> None:
        self._views, self._store = views, store

    async def read(self, run_id: str, attempt: int, first: int, count: int) -> ReadLogLinesResponse:
        """Lines `first` to `first + count - 1` as far as they exist; of the newest attempt when it is 0."""
        view = await self._views.view(run_id, LOGS, untabled=[LOGS])
        lines = line_counts(view)
        attempt = attempt or max(lines, default=0)
        found: dict[int, LogLine] = {}
        if count and lines.get(attempt):
            for segment in view.archived[LOGS]:
                if any(entry.attempt == attempt for entry in segment.attempts):
                    collect(await self._archived(segment, attempt, first, count), first, count, found)
            for arrival in view.tails[LOGS]:
                if arrival.batch.attempt == attempt:
                    collect(arrival.batch.logs.lines, first, count, found)
        return ReadLogLinesResponse(
            attempts=[AttemptLines(attempt=number, lines=of) for number, of in sorted(lines.items())],
            attempt=attempt,
            lines=bounded(found[number] for number in sorted(found)),
        )

    async def _archived(self, segment: Segment, attempt: int, first: int, count: int) -> list[LogLine]:
        """Lines of a segment in the range, by the statistics of its row groups."""
        footer = await self._store.footer(segment.key, segment.size)
        of_attempt = [
            group
            for group in range(footer.num_row_groups)
            if overlaps(group_range(footer, group, "attempt"), attempt, attempt)
        ]
        held = await self._numbers(segment, footer, of_attempt)
        wanted = [group for group, numbers in held.items() if overlaps(numbers, first, first + count - 1)]
        found: list[LogLine] = []
        async with aclosing(self._store.pieces(segment, wanted, PIECE_BYTES)) as tables:
            async for table in tables:
                found += await asyncio.to_thread(_lines, table, attempt, first, count)
        return found

    async def _numbers(
        self, segment: Segment, footer: pq.FileMetaData, groups: Sequence[int]
    ) -> dict[int, tuple[int, int]]:
        """The smallest and largest line number in each of some row groups."""
        if all(has_range(footer, group, "number") for group in groups):
            return {group: group_range(footer, group, "number") for group in groups}
        # Segments of earlier versions have no statistics of this column: it is read, and is small.
        tables = await self._store.groups(segment, ["number"], groups)
        found: dict[int, tuple[int, int]] = {}
        for group, (_, table) in zip(groups, tables, strict=True):
            ends = pc.min_max(table.column("number")).as_py()
            found[group] = (ends["min"], ends["max"])
        return found


def line_counts(view: RunView) -> dict[int, int]:
    """Lines of each attempt: archived ones, and those on the stream after them."""
    lines: dict[int, int] = defaultdict(int, view.before[LOGS])
    for arrival in view.tails[LOGS]:
        lines[arrival.batch.attempt] += len(arrival.batch.logs.lines)
    return dict(lines)


def collect(lines: Iterable[LogLine], first: int, count: int, into: dict[int, LogLine]) -> None:
    for line in lines:
        if first <= line.number < first + count:
            into[line.number] = line


def bounded(lines: Iterable[LogLine]) -> list[LogLine]:
    """Lines until their text is MAX_BYTES long, at least one."""
    found: list[LogLine] = []
    size = 0
    for line in lines:
        size += line.ByteSize()
        if found and size > MAX_BYTES:
            break
        found.append(line)
    return found


def overlaps(held: tuple[int, int], first: int, last: int) -> bool:
    return held[0] <= last and held[1] >= first


def _lines(table: pa.Table, attempt: int, first: int, count: int) -> list[LogLine]:
    number = table.column("number")
    of_attempt = pc.equal(table.column("attempt"), attempt)
    in_range = pc.and_(pc.greater_equal(number, first), pc.less(number, first + count))
    found = decode_logs(table.filter(pc.and_(of_attempt, in_range)))
    return [line for arrival in found for line in arrival.batch.logs.lines]
