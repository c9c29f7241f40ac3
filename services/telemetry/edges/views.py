"""A run at one moment: its segments, and what is on the stream behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from runspine.log.link import Unreachable
from runspine.wire.v1.manifest_pb2 import Segment, SeriesSummary
from services.telemetry.core import segments
from services.telemetry.core.levels import Buckets, Stretch, singles, stretches
from services.telemetry.core.rows import Arrival
from services.telemetry.core.seen import Seen
from services.telemetry.core.visibility import Cutoffs
from services.telemetry.edges.batches import BatchReader
from services.telemetry.edges.runs import Runs
from services.telemetry.edges.tails import Tails

TAIL_SECONDS = 10.0
FEW_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A series' rows in one segment."""

    segment: Segment
    summary: SeriesSummary


@dataclass(slots=True)
class View:
    run_id: str
    cutoffs: Cutoffs
    archived: Mapping[str, tuple[Segment, ...]]
    before: Mapping[str, Mapping[int, int]]
    tails: dict[str, list[Arrival]] = field(default_factory=dict)
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    _parts: dict[str, dict[str, list[Part]]] = field(default_factory=dict)
    _tailing: dict[str, dict[str, list[Stretch]]] = field(default_factory=dict)
    _points: dict[tuple[str, str], Buckets] = field(default_factory=dict)

    def parts(self, kind: str, name: str) -> list[Part]:
        """Where a series lies, oldest first. Looked up once for all series: there may be thousands."""
        if kind not in self._parts:
            found: dict[str, list[Part]] = {}
            for segment in self.archived[kind]:
                for summary in segment.series:
                    found.setdefault(summary.name, []).append(Part(segment, summary))
            self._parts[kind] = found
        return self._parts[kind].get(name, [])

    def tailing(self, kind: str) -> Mapping[str, Sequence[Stretch]]:
        """Series that are not archived yet, by name. Looked up once for all of them, too."""
        if kind not in self._tailing:
            found: dict[str, list[Stretch]] = {}
            for table in self.tables[kind]:
                for stretch in stretches(kind, table):
                    found.setdefault(stretch.name, []).append(stretch)
            self._tailing[kind] = found
        return self._tailing[kind]

    def tail_points(self, kind: str, name: str) -> Buckets:
        """Points of a series that are not archived yet. Those not shown any more are not among them."""
        if (kind, name) not in self._points:
            found = self.tailing(kind).get(name, [])
            self._points[kind, name] = Buckets.join([singles(stretch) for stretch in found])
        return self._points[kind, name]


class Views:
    def __init__(self, batches: BatchReader, runs: Runs) -> None:
        self._batches = batches
        self._runs = runs
        self._tails = Tails(batches)

    async def of(
        self, run_id: str, *kinds: str, untabled: Collection[str] = (), few: Collection[str] = ()
    ) -> View:
        """These kinds of a run. What is behind the cursor becomes tables too, but for the `untabled`
        kinds, and for the `few` when there are not a few.

        The stream is read first: it may be trimmed soon behind the cursor.
        """
        await self._runs.ensure(run_id)
        cutoffs = await self._runs.cutoffs(run_id)
        archive = (await self._batches.chain_of(run_id)).archive
        cursor, covered = archive.cursor, archive.seen.covered(run_id)
        view = View(
            run_id,
            cutoffs,
            {kind: archive.of(run_id, kind) for kind in kinds},
            {kind: archive.before(run_id, kind) for kind in kinds},
        )
        try:
            async with asyncio.timeout(TAIL_SECONDS):
                for kind in kinds:
                    found = await self._tails.of(run_id, kind, cursor, Seen(covered), cutoffs)
                    view.tails[kind] = found
                    many = kind in few and sum(a.batch.ByteSize() for a in found) > FEW_BYTES
                    view.tables[kind] = []
                    if kind not in untabled and not many:
                        made = await asyncio.to_thread(segments.tables_of, kind, found, view.before[kind])
                        view.tables[kind] = list(made.values())
        except TimeoutError as error:
            raise Unreachable("the stream does not answer in time") from error
        return view
