"""A consistent view of a run: its segments, and its batches on the stream after them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from runspine.eventlog.connection import NatsUnreachableError
from runspine.services.telemetry.core import segments
from runspine.services.telemetry.core.batch_numbers import SeenBatches
from runspine.services.telemetry.core.levels import Buckets, Stretch, single_points, stretches
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.core.visibility import Cutoffs
from runspine.services.telemetry.edges.batches import BatchReader
from runspine.services.telemetry.edges.run_lookup import RunLookup
from runspine.services.telemetry.edges.stream_tails import StreamTails
from runspine.wire.v1.manifest_pb2 import Segment, SeriesSummary

TAIL_TIMEOUT_SECONDS = 10.0
MAX_FEW_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SeriesPart:
    """The rows of a series in one segment."""

    segment: Segment
    summary: SeriesSummary


@dataclass(slots=True)
class RunView:
    """The segments and tails of some kinds of a run at one moment."""

    run_id: str
    cutoffs: Cutoffs
    archived: Mapping[str, tuple[Segment, ...]]
    before: Mapping[str, Mapping[int, int]]
    tails: dict[str, list[Arrival]] = field(default_factory=dict)
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    _parts: dict[str, dict[str, list[SeriesPart]]] = field(default_factory=dict)
    _tail_stretches: dict[str, dict[str, list[Stretch]]] = field(default_factory=dict)
    _points: dict[tuple[str, str], Buckets] = field(default_factory=dict)

    def parts(self, kind: str, name: str) -> list[SeriesPart]:
        """Segments that hold a series, oldest first. Indexed once for all series: there may be thousands."""
        if kind not in self._parts:
            found: dict[str, list[SeriesPart]] = {}
            for segment in self.archived[kind]:
                for summary in segment.series:
                    found.setdefault(summary.name, []).append(SeriesPart(segment, summary))
            self._parts[kind] = found
        return self._parts[kind].get(name, [])

    def tail_stretches(self, kind: str) -> Mapping[str, Sequence[Stretch]]:
        """Points that are not archived yet, by series. Indexed once for all series."""
        if kind not in self._tail_stretches:
            found: dict[str, list[Stretch]] = {}
            for table in self.tables[kind]:
                for stretch in stretches(kind, table):
                    found.setdefault(stretch.name, []).append(stretch)
            self._tail_stretches[kind] = found
        return self._tail_stretches[kind]

    def tail_points(self, kind: str, name: str) -> Buckets:
        """Visible points of a series that are not archived yet."""
        if (kind, name) not in self._points:
            found = self.tail_stretches(kind).get(name, [])
            self._points[kind, name] = Buckets.join([single_points(stretch) for stretch in found])
        return self._points[kind, name]


class RunViews:
    """Makes views of runs."""

    def __init__(self, batches: BatchReader, runs: RunLookup) -> None:
        self._batches = batches
        self._runs = runs
        self._tails = StreamTails(batches)

    async def view(
        self, run_id: str, *kinds: str, untabled: Collection[str] = (), few: Collection[str] = ()
    ) -> RunView:
        """View these kinds of a run. Batches on the stream become tables too, except for `untabled` kinds,
        and
        for `few` kinds when they exceed MAX_FEW_BYTES.

        The cursor is taken before the stream is read, which may be trimmed up to it at any time.
        """
        await self._runs.ensure(run_id)
        cutoffs = await self._runs.cutoffs(run_id)
        archive = (await self._batches.chain_of(run_id)).archive
        cursor, covered = archive.cursor, archive.seen.covered(run_id)
        view = RunView(
            run_id,
            cutoffs,
            {kind: archive.of(run_id, kind) for kind in kinds},
            {kind: archive.before(run_id, kind) for kind in kinds},
        )
        try:
            async with asyncio.timeout(TAIL_TIMEOUT_SECONDS):
                for kind in kinds:
                    found = await self._tails.tail(run_id, kind, cursor, SeenBatches(covered), cutoffs)
                    view.tails[kind] = found
                    many = kind in few and sum(a.batch.ByteSize() for a in found) > MAX_FEW_BYTES
                    view.tables[kind] = []
                    if kind not in untabled and not many:
                        made = await asyncio.to_thread(segments.tables_of, kind, found, view.before[kind])
                        view.tables[kind] = list(made.values())
        except TimeoutError as error:
            raise NatsUnreachableError("the stream does not answer in time") from error
        return view
