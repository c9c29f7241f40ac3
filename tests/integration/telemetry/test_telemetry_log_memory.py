"""A log of any size is read a few megabytes at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

from runspine.services.telemetry.core import parquet, rows, segments
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.edges.archived_history import PIECE_BYTES, ArchivedHistory
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.wire.v1 import telemetry_pb2 as wire
from runspine.wire.v1.manifest_pb2 import Segment
from tests.kit.telemetry import Archived, TelemetryProcess

MIB = 1 << 20
LINE = "x" * 1000
LINES_PER_BATCH = 256


def log_batch(number: int, text: str = LINE) -> wire.LogBatch:
    first = 1 + number * LINES_PER_BATCH
    return wire.LogBatch(lines=[wire.LogLine(number=first + n, text=text) for n in range(LINES_PER_BATCH)])


def lines_table(mib: int) -> pa.Table:
    batches = mib * MIB // (LINES_PER_BATCH * len(LINE))
    return rows.encode_logs(
        [Arrival(n + 1, wire.Batch(attempt=1, logs=log_batch(n))) for n in range(batches)]
    )


async def test_a_segment_of_one_large_group_is_decoded_in_pieces(archived: Archived) -> None:
    table = lines_table(48)
    total = table.num_rows
    # As earlier versions wrote it: one row group, 48 MiB of lines in some hundred KiB.
    data = parquet.to_bytes(table)
    del table
    segment = Segment(run_id="r", kind="logs", key="telemetry/r/logs/large", size=len(data), last=total)
    await archived.blobs.put(segment.key, data)
    history = ArchivedHistory(SegmentStore(archived.blobs, MIB))
    before, most, found = pa.total_allocated_bytes(), 0, 0
    async for arrival in history.arrivals("logs", [segment], 0, {}):
        found += len(arrival.batch.logs.lines)
        most = max(most, pa.total_allocated_bytes() - before)
    assert found == total
    assert most < 6 * PIECE_BYTES


def test_segments_of_lines_have_groups_that_can_be_read_whole() -> None:
    made = segments.make_segment("r", "logs", "", lines_table(24))
    [data] = made.objects.values()
    footer = pa.parquet.ParquetFile(pa.BufferReader(data)).metadata
    sizes = [footer.row_group(n).total_byte_size for n in range(footer.num_row_groups)]
    assert max(sizes) < 2 * segments.LOG_GROUP_BYTES
    assert made.segment.raw_size > 24 * MIB


def peak_mib(service: TelemetryProcess) -> float:
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def reset_peak(service: TelemetryProcess) -> None:
    Path(f"/proc/{service.process.pid}/clear_refs").write_text("5")


async def count_lines(call: AsyncIterator[wire.StreamLogsResponse]) -> int:
    return sum([len(answer.lines) async for answer in call])


@pytest.mark.long
async def test_a_call_over_a_gigabyte_of_lines_takes_at_most_200_mib(archived: Archived) -> None:
    chance = random.Random(1)
    run_id = await archived.rig.submit("true")
    writer = archived.start()
    batches = 4096
    async with archived.stub(writer):
        for number in range(batches):
            text = f"{chance.random()} loss {chance.random()} ".ljust(1000, "abcdefg"[number % 7])
            position = await archived.emit(run_id, logs=log_batch(number, text))
    await archived.archived_to(position, 600)
    await asyncio.to_thread(writer.stop)
    # Another process: its idle memory is that of a service that has archived nothing.
    service = archived.start(RUNSPINE_INGEST_COMMIT_SECONDS="3600")
    async with archived.stub(service) as stub:
        small = await archived.rig.submit("true")
        await count_lines(stub.StreamLogs(wire.StreamLogsRequest(run_id=small)))
        idle = service.rss_mib
        reset_peak(service)
        read = await count_lines(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id)))
        assert read == batches * LINES_PER_BATCH
        assert peak_mib(service) - idle < 200
        reset_peak(service)
        request = wire.SearchLogsRequest(run_id=run_id, text="not there")
        assert await count_lines(stub.SearchLogs(request)) == 0
        assert peak_mib(service) - idle < 200
