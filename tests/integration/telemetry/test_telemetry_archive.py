"""The stream becomes segments, the stream is trimmed, and every question is answered as before."""

from __future__ import annotations

import math
from typing import Any

import grpc
import numpy as np
import pytest

from runspine.services.telemetry.core import parquet, rows
from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.archive import all_of, end, line, metric, trim
from tests.kit.servers.nats import free_port
from tests.kit.telemetry import Archived, step_batch, steps
from tests.kit.waiting import eventually


async def test_log_lines_outlive_the_stream(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    positions = [await archived.emit(run_id, logs=line(f"line {n}", n)) for n in range(1, 6)]
    await archived.emit(run_id, logs=line("line 5", 5), number=5, again=1)
    async with archived.stub(service) as stub:
        request = wire.StreamLogsRequest(run_id=run_id)
        before = await all_of(stub.StreamLogs(request))
        await trim(archived, service, positions[-1] + 1)
        assert await all_of(stub.StreamLogs(request)) == before
        assert [a.position for a in before] == positions
        later = await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id, after=positions[2])))
        assert [a.lines[0].text for a in later] == ["line 4", "line 5"]
        last = await archived.emit(run_id, logs=line("still there", 6))
        answers = await all_of(stub.StreamLogs(request))
        assert answers[-1].position == last
        assert len(answers) == 6


async def test_lines_of_a_resent_batch_come_in_their_place_across_the_archive(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()

    async def emit(first: int, number: int) -> int:
        lines = [wire.LogLine(number=first + n, text=f"line {first + n}") for n in range(50)]
        return await archived.emit(run_id, logs=wire.LogBatch(lines=lines), number=number)

    first = await emit(1, 1)
    # Batch 2 is lost on its way, and stored after batches 3 and 4, of which one is archived already.
    overtaking = await emit(101, 3)
    await trim(archived, service, overtaking)
    async with archived.stub(service) as stub:

        async def numbers(after: int = 0) -> list[int]:
            answers = await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id, after=after)))
            return [line.number for answer in answers for line in answer.lines]

        await emit(151, 4)
        last = await emit(51, 2)
        assert await numbers() == list(range(1, 201))
        assert await numbers(first) == list(range(51, 201))
        found = await all_of(stub.SearchLogs(wire.SearchLogsRequest(run_id=run_id, text="line ")))
        assert [line.number for answer in found for line in answer.lines] == list(range(1, 201))
        await trim(archived, service, last)
        assert await numbers() == list(range(1, 201))
        assert await numbers(first) == list(range(51, 201))


async def test_a_batch_that_comes_again_after_its_archival_is_not_doubled(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0] * 5, 1)))
    position = await archived.emit(run_id, steps=step_batch(steps("a", 5, [1.0] * 5, 6)))
    await trim(archived, service, position)
    again = await archived.emit(run_id, steps=step_batch(steps("a", 5, [1.0] * 5, 6)), number=2, again=1)
    async with archived.stub(service) as stub:
        assert len(await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))) == 2
        await archived.archived_to(again)
        assert len(await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))) == 2
    assert sum(s.rows for s in (await archived.archive()).of(run_id, "steps")) == 10


async def test_a_run_that_has_ended_is_joined_into_one_segment_of_each_kind(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start(RUNSPINE_INGEST_GRACE_SECONDS="0.5")
    sent = []
    for n in range(4):
        sent.append(steps("a", 10 * n, [float(n)] * 10, 10 * n + 1))
        await archived.emit(run_id, steps=step_batch(sent[-1]))
        position = await archived.emit(run_id, metrics=metric("loss", [n, n + 0.5], 2 * n))
        await archived.archived_to(position)
    assert len((await archived.archive()).of(run_id, "steps")) == 4
    await end(archived, run_id)

    async def joined() -> bool:
        archive = await archived.archive()
        return all(len(archive.of(run_id, kind)) == 1 for kind in ("steps", "metrics"))

    await eventually(joined)
    archive = await archived.archive()
    named = {key for kind in rows.KINDS for s in archive.of(run_id, kind) for key in (s.key, s.levels_key)}

    async def swept() -> bool:
        return set(await archived.blobs.keys(f"telemetry/{run_id}/")) == named

    await eventually(swept)
    async with archived.stub(service) as stub:
        answers = await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))
        assert [block for answer in answers for block in answer.blocks] == sent
        metrics = await all_of(stub.StreamMetrics(wire.StreamRequest(run_id=run_id)))
        assert [list(a.blocks[0].values) for a in metrics] == [[n, n + 0.5] for n in range(4)]


async def test_a_second_process_steps_back_and_nothing_is_doubled(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    both = [archived.start(), archived.start()]
    sent = 0

    async def one_stood_back() -> bool:
        """Both read the same stream, so both try to commit the same batches."""
        nonlocal sent
        await archived.emit(run_id, steps=step_batch(steps("a", sent, [1.0] * 10, sent + 1)))
        sent += 10
        return any("ingest.stands_back" in service.log for service in both)

    await eventually(one_stood_back, 40)
    position = await archived.emit(run_id, steps=step_batch(steps("a", sent, [1.0] * 10, sent + 1)))
    sent += 10
    await archived.archived_to(position)
    archive = await archived.archive()
    assert sum(s.rows for s in archive.of(run_id, "steps")) == sent
    # The one that leads dies: the other takes over.
    leader = next((s for s in both if "ingest.stands_back" not in s.log), both[0])
    leader.kill()
    position = await archived.emit(run_id, steps=step_batch(steps("a", sent, [1.0] * 10, sent + 1)))
    await archived.archived_to(position, 40)
    archive = await archived.archive()
    assert sum(s.rows for s in archive.of(run_id, "steps")) == sent + 10
    for service in both:
        if service is not leader:
            async with archived.stub(service) as stub:
                answers = await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))
                assert sum(block.count for answer in answers for block in answer.blocks) == sent + 10


async def test_partitions_share_the_runs_and_the_stream_is_trimmed_behind_the_slowest(
    archived: Archived,
) -> None:
    runs = [await archived.rig.submit("true") for _ in range(6)]
    parts = {"RUNSPINE_INGEST_PARTITIONS": "2"}
    first = archived.start(**parts, RUNSPINE_INGEST_PARTITION_INDEX="0")
    for run_id in runs:
        position = await archived.emit(run_id, logs=line("hello"))

    async def cursors() -> list[int]:
        return [(await archived.archive(n, 2)).cursor for n in range(2)]

    async def half() -> bool:
        return (await cursors())[0] >= position

    await eventually(half)
    assert (await archived.rig.log.extent("TELEMETRY")).commits == 6, "the other half is nowhere else"
    second = archived.start(**parts, RUNSPINE_INGEST_PARTITION_INDEX="1")
    await archived.trimmed_to(position)
    found = [await archived.archive(n, 2) for n in range(2)]
    held = [{run for run, _ in archive.segments} for archive in found]
    assert held[0] | held[1] == set(runs)
    assert not held[0] & held[1]
    for service in (first, second):
        async with archived.stub(service) as stub:
            for run_id in runs:

                async def received(stub: Any = stub, run_id: str = run_id) -> bool:
                    answers = await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id)))
                    return [a.lines[0].text for a in answers] == ["hello"]

                await eventually(received, 10)


async def test_without_the_archive_no_incomplete_answer_is_given(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await trim(archived, service, await archived.emit(run_id, logs=line("first")))
    await archived.emit(run_id, logs=line("second", 2))
    blind = archived.start(RUNSPINE_S3_ENDPOINT=f"127.0.0.1:{free_port()}")
    async with archived.stub(blind) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id)))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_damaged_segment_is_noticed(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    position = await archived.emit(run_id, metrics=metric("loss", [float(n) for n in range(100)]))
    await trim(archived, service, position)
    [segment] = (await archived.archive()).of(run_id, "metrics")
    data = bytearray(await archived.blobs.get(segment.key) or b"")
    # A bit here and there in the pages; the footer is whole.
    for at in range(40, len(data) // 3, 40):
        data[at] ^= 1
    await archived.blobs.put(segment.key, bytes(data))
    async with archived.stub(service) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await all_of(stub.StreamMetrics(wire.StreamRequest(run_id=run_id)))
        assert caught.value.code() == grpc.StatusCode.DATA_LOSS
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=["loss"]))
        assert caught.value.code() == grpc.StatusCode.DATA_LOSS
        await archived.blobs.delete(segment.key)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await all_of(stub.StreamMetrics(wire.StreamRequest(run_id=run_id)))
        assert caught.value.code() == grpc.StatusCode.DATA_LOSS


async def test_segments_can_be_read_by_anything_that_reads_parquet(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    archived.start()
    sent = steps("a", 0, [1.0, -0.0, math.nan], 7)
    position = await archived.emit(run_id, steps=step_batch(sent))
    await archived.archived_to(position)
    [segment] = (await archived.archive()).of(run_id, "steps")
    table = parquet.from_bytes(await archived.blobs.get(segment.key) or b"")
    assert table["step"].to_pylist() == [0, 1, 2]
    assert table["observation"].to_pylist()[2] == [9.0, -9.0]
    assert np.signbit(table["reward"].to_numpy()[1])
