"""A run that trains is asked about again and again: each answer is whole, and reads only what is new."""

from __future__ import annotations

import asyncio
from typing import Any

from runspine.services.telemetry.core.batch_numbers import SeenBatches
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.edges.batches import BatchReader
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog
from runspine.services.telemetry.edges.run_lookup import RunLookup
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.services.telemetry.edges.stream_tails import StreamTails
from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.telemetry import Archived
from tests.kit.waiting import eventually

# Nothing is archived while a test looks at the stream's part.
NEVER = {"RUNSPINE_INGEST_COMMIT_SECONDS": "3600"}


def losses(*steps: int) -> wire.MetricBatch:
    return wire.MetricBatch(
        blocks=[wire.MetricBlock(name="loss", values=[float(step) for step in steps], steps=steps, at=steps)]
    )


async def drawn(stub: Any, run_id: str) -> list[float]:
    answer = await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=["loss"], max_points=1000))
    return list(answer.series[0].x)


async def test_every_answer_has_all_that_came_before_it_once(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    await archived.attempt(run_id, 1)
    async with archived.stub(archived.start(**NEVER)) as stub:
        for step in range(1, 31):
            await archived.emit(run_id, metrics=losses(step))
            if step % 3 == 0:
                # The same batch again, as a worker sends it that was not answered in time.
                await archived.emit(run_id, number=step, again=1, metrics=losses(step))
            asked = [drawn(stub, run_id) for _ in range(4)] if step % 10 == 0 else [drawn(stub, run_id)]
            for seen in await asyncio.gather(*asked):
                assert seen == list(range(1, step + 1))
        found = await stub.ListSeries(wire.ListSeriesRequest(run_id=run_id))
        assert [(one.name, one.points, one.last) for one in found.series] == [("loss", 30, 30.0)]


async def test_a_new_attempt_hides_what_was_read_of_the_one_before(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    await archived.attempt(run_id, 1)
    await archived.emit(run_id, metrics=losses(*range(1, 21)))
    async with archived.stub(archived.start(**NEVER)) as stub:
        assert await drawn(stub, run_id) == list(range(1, 21))
        await archived.attempt(run_id, 2, resumed_at=10)
        await archived.emit(run_id, attempt=2, metrics=losses(11, 12))

        async def hidden() -> bool:  # attempts are asked for once a second
            return await drawn(stub, run_id) == list(range(1, 13))

        await eventually(hidden, 30)


async def test_what_is_archived_meanwhile_is_neither_lost_nor_doubled(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    await archived.attempt(run_id, 1)
    async with archived.stub(archived.start()) as stub:
        for step in range(1, 41):
            await archived.emit(run_id, metrics=losses(step))
            assert await drawn(stub, run_id) == list(range(1, step + 1))
            await asyncio.sleep(0.05)

        async def all_archived() -> bool:
            return (await archived.archive()).before(run_id, "metrics") == {1: 40}

        await eventually(all_archived)
        assert await drawn(stub, run_id) == list(range(1, 41))


class Counted(BatchReader):
    """Keeps from where to where it read."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.stretches: list[tuple[int, int]] = []

    async def between(self, run_id: str, kind: str, after: int, end: int, *known: Any) -> list[Arrival]:
        self.stretches.append((after, end))
        return await super().between(run_id, kind, after, end, *known)


async def test_a_question_again_reads_from_the_stream_only_what_is_new(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    link, log, blobs = archived.rig.link, archived.rig.log, archived.blobs
    reader = Counted(link, log, ArchiveCatalog(blobs, 1), SegmentStore(blobs, 1 << 20), RunLookup(log))
    tails = StreamTails(reader)

    async def ask(cursor: int, **cutoffs: Any) -> int:
        return len(await tails.tail(run_id, "metrics", cursor, SeenBatches(), cutoffs.get("cutoffs", {})))

    assert await ask(0) == 0
    positions = [await archived.emit(run_id, metrics=losses(step)) for step in range(5)]
    assert (await ask(0), await ask(0)) == (5, 5)
    later = await archived.emit(run_id, metrics=losses(5))
    assert (await ask(0), await ask(0)) == (6, 6)
    assert reader.stretches == [(0, positions[-1]), (positions[-1], later)]
    # A commit, and an attempt that begins at an earlier step: nothing that was read is good any more.
    assert (await ask(positions[1]), await ask(positions[1], cutoffs={1: 3})) == (4, 2)
    assert reader.stretches[2:] == [(positions[1], later), (positions[1], later)]


async def test_tails_too_long_to_hold_are_read_again(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    link, log, blobs = archived.rig.link, archived.rig.log, archived.blobs
    reader = Counted(link, log, ArchiveCatalog(blobs, 1), SegmentStore(blobs, 1 << 20), RunLookup(log))
    many = losses(*range(40_000))
    tails = StreamTails(reader, max_bytes=3 * many.ByteSize())
    positions = [await archived.emit(run_id, metrics=many) for _ in range(4)]
    for _ in range(2):
        assert len(await tails.tail(run_id, "metrics", 0, SeenBatches(), {})) == 4
    assert reader.stretches == [(0, positions[-1])] * 2
