"""The shipper alone, with a real server, a real disk and the trouble both can make."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from runspine.eventlog.publisher import MessageTooLargeError
from runspine.ids import new_ulid
from runspine.services.worker.telemetry.assembly.batches import LOG
from runspine.services.worker.telemetry.assembly.spool_record import SpoolRecord
from runspine.services.worker.telemetry.shipper import MAX_IN_FLIGHT, Shipper
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.wire.v1.telemetry_pb2 import Batch, LogBatch, LogLine
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually
from tests.kit.worker import Rig


class Bench:
    def __init__(self, rig: Rig, most_bytes: int = 64 << 20) -> None:
        self.rig = rig
        self.run_id = new_ulid()
        self.spools = SpoolDirectory(rig.folder, most_bytes)
        self.shipper = Shipper(rig.publisher, self.spools, self.run_id, 1)

    async def start(self) -> None:
        await self.shipper.open()
        self.shipper.start()

    def records(self, first: int, last: int, size: int = 1000) -> list[SpoolRecord]:
        found = []
        for number in range(first, last + 1):
            logs = LogBatch(lines=[LogLine(number=number, text="x" * size)])
            batch = Batch(run_id=self.run_id, attempt=1, number=number, logs=logs)
            found.append(SpoolRecord(number, LOG, batch.SerializeToString()))
        return found

    async def numbers(self) -> list[int]:
        return [batch.number for batch in await self.rig.batches(self.run_id)]


@pytest.fixture
async def bench(nats_server: NatsServer, connect: Any, tmp_path: Path) -> Bench:
    mine = await connect("rig")
    return Bench(Rig(nats_server.url, tmp_path, mine.link, mine.publisher, mine.log))


async def test_what_is_appended_is_stored_in_order_and_gone_from_disk(bench: Bench) -> None:
    await bench.start()
    await bench.shipper.append(bench.records(1, 100))
    assert bench.spools.used > 100_000
    await bench.shipper.append(bench.records(101, 150))
    await bench.shipper.finish()
    assert await bench.numbers() == list(range(1, 151))
    assert (bench.spools.used, bench.spools.names()) == (0, [])


async def test_few_are_in_flight_and_the_rest_waits_on_disk(bench: Bench, nats_server: NatsServer) -> None:
    await bench.start()
    with nats_server.frozen():
        await bench.shipper.append(bench.records(1, 200))
        await asyncio.sleep(0.5)
        assert bench.rig.publisher.waiting == MAX_IN_FLIGHT
    async with asyncio.timeout(60):
        await bench.shipper.finish()
    assert sorted(set(await bench.numbers())) == list(range(1, 201))


async def test_a_full_disk_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.start()
    real, full = os.pwrite, [True]

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    appending = asyncio.create_task(bench.shipper.append(bench.records(1, 5)))

    async def noticed() -> bool:
        return bench.spools.full

    await eventually(noticed)
    assert not appending.done()
    full[0] = False
    async with asyncio.timeout(60):
        await appending
        assert not bench.spools.full
        await bench.shipper.finish()
    assert await bench.numbers() == [1, 2, 3, 4, 5]


async def test_a_batch_that_the_server_cannot_take_is_reported_and_nothing_hangs(bench: Bench) -> None:
    await bench.start()
    await bench.shipper.append(bench.records(1, 3))
    await bench.shipper.append(bench.records(4, 4, size=2 << 20))
    async with asyncio.timeout(60):
        with pytest.raises(MessageTooLargeError):
            await bench.shipper.finish()
    with pytest.raises(MessageTooLargeError):
        await bench.shipper.append(bench.records(5, 5))
    await bench.shipper.leave()
    # What could not be sent is still there to be looked at.
    assert bench.spools.names() == [f"{bench.run_id}.1"]

    async def stored() -> bool:
        return await bench.numbers() == [1, 2, 3]

    # What had been sent before is stored, now or soon.
    await eventually(stored)


async def test_what_is_left_behind_goes_on_where_it_stopped(bench: Bench, nats_server: NatsServer) -> None:
    await bench.start()
    await bench.shipper.append(bench.records(1, 10))

    async def stored() -> bool:
        return bench.spools.used == 0

    await eventually(stored)
    nats_server.kill()
    await bench.shipper.append(bench.records(11, 20))
    await bench.shipper.leave()
    nats_server.start()
    again = Shipper(bench.rig.publisher, bench.spools, bench.run_id, 1)
    await again.open()
    assert bench.spools.used == sum(record.size for record in bench.records(11, 20))
    async with asyncio.timeout(60):
        await again.finish()
    assert await bench.numbers() == list(range(1, 21))


async def test_what_is_dropped_is_not_published(bench: Bench, nats_server: NatsServer) -> None:
    await bench.start()
    nats_server.kill()
    await bench.shipper.append(bench.records(1, 50))
    await bench.shipper.drop()
    nats_server.start()
    assert (bench.spools.used, bench.spools.names()) == (0, [])
    # The publisher sends in order: the marker of another run comes after what it still had.
    marker = Bench(bench.rig)
    await marker.start()
    await marker.shipper.append(marker.records(1, 1))
    await marker.shipper.finish()
    assert await marker.numbers() == [1]
    assert await bench.numbers() == []
    assert bench.rig.publisher.waiting == 0
