"""What a real nats-server writes is whole, whatever ended it; what is changed in it is found."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, StoreCompression, StreamConfig

from runspine.nats_store.behind import has_valid_record
from runspine.nats_store.check import Report, check
from runspine.nats_store.highway import key_of
from runspine.nats_store.records import read_block
from tests.kit.samples.nats_blocks import flipped, starts
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.power import power_domain

KILLS = 20
FLIPS = 300
AT_ONCE = 50


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    started = NatsServer(tmp_path)
    started.start()
    yield started
    started.stop()


async def connected(server: NatsServer) -> Client:
    """Nobody waits for what a killed server was asked."""
    return await nats.connect(server.url, allow_reconnect=False, error_cb=_nothing)


async def _nothing(_: Exception) -> None:
    return None


async def make_streams(server: NatsServer) -> None:
    client = await connected(server)
    stream = client.jetstream()
    facts = StreamConfig(name="FACTS", subjects=["facts.>"], discard=DiscardPolicy.NEW)
    facts.deny_delete = facts.deny_purge = True
    await stream.add_stream(facts)
    await stream.add_stream(StreamConfig(name="WORK", subjects=["work.>"]))
    await stream.add_stream(
        StreamConfig(name="PACKED", subjects=["packed.>"], compression=StoreCompression.S2)
    )
    await stream.add_stream(StreamConfig(name="NEWEST", subjects=["newest.>"], max_msgs_per_subject=1))
    await client.close()


async def publish(client: Client, chance: random.Random, count: int, names: str) -> None:
    stream = client.jetstream()

    async def one() -> None:
        name = chance.choice(names.split())
        headers = (
            {"Nats-Msg-Id": chance.randbytes(9).hex()} if name == "facts" or chance.random() < 0.5 else None
        )
        subject = f"{name}.{chance.randrange(100)}.{'x' * chance.randrange(1, 60)}"
        await stream.publish(subject, chance.randbytes(chance.randrange(5001)), headers=headers)

    for _ in range(0, count, AT_ONCE):
        await asyncio.gather(*(one() for _ in range(AT_ONCE)))


def assert_whole(server: NatsServer) -> Report:
    report = check(server.store)
    assert [store.damage for store in report.stores] == [[]] * 4
    return report


async def test_blocks_of_a_real_server_are_whole(server: NatsServer) -> None:
    await make_streams(server)
    client = await connected(server)
    stream, chance = client.jetstream(), random.Random(1)
    await publish(client, chance, 8000, "facts work packed newest")
    await publish(client, chance, 2000, "packed")
    for sequence in chance.sample(range(1, 1500), 500):
        await stream.delete_msg("WORK", sequence)
    await stream.purge_stream("WORK", keep=300)
    await publish(client, chance, 500, "facts work")
    await client.close()
    for end in (server.kill, server.stop):
        end()
        report = assert_whole(server)
        facts, newest, packed, work = report.stores
        assert facts.blocks > 0
        assert packed.bytes_not_checked > 0
        assert min(store.records for store in (facts, newest, work)) > 300
        assert not any(store.unfinished for store in report.stores)
        server.start()


async def test_a_server_killed_under_load_leaves_no_damage(server: NatsServer) -> None:
    await make_streams(server)
    for number in range(KILLS):
        chance = random.Random(number)
        client = await connected(server)
        load = asyncio.create_task(publish(client, chance, 100_000, "facts work packed newest"))
        await asyncio.sleep(chance.uniform(0.1, 0.5))
        server.kill()
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        await client.close()
        assert_whole(server)
        server.start()


@pytest.mark.long
async def test_a_server_that_loses_power_leaves_no_damage(tmp_path: Path) -> None:
    with power_domain(tmp_path) as disk:
        server = NatsServer(disk.place)
        server.start()
        await make_streams(server)
        # The configuration of the server is on this disk, too.
        subprocess.run(["sync", "-f", str(disk.place)], check=True)
        for number in range(5):
            client = await connected(server)
            load = asyncio.create_task(publish(client, random.Random(number), 100_000, "facts work packed"))
            await asyncio.sleep(0.7)
            disk.cut()
            server.kill()
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
            await client.close()
            disk.unmount()
            disk.mount()
            assert_whole(server)
            server.start()
        server.stop()


async def test_every_flipped_bit_of_an_acknowledged_fact_is_found(server: NatsServer) -> None:
    """With a header, as every fact has, lengths are covered: by the checksum or by what they delimit."""
    await make_streams(server)
    client = await connected(server)
    await publish(client, random.Random(2), 400, "facts")
    await client.close()
    server.stop()
    [path] = server.store.rglob("FACTS/msgs/*.blk")
    data, key, chance = path.read_bytes(), key_of("FACTS-1"), random.Random(3)
    places = starts(data)
    random_places = [chance.randrange(places[-1]) for _ in range(FLIPS)]
    heads = [place + at for place in chance.sample(places[:-1], 5) for at in range(22)]
    for at in (*random_places, *heads):
        changed = flipped(data, at, chance.randrange(8))
        wrong = read_block(changed, key, raft=False).wrong
        assert wrong is not None, at
        assert wrong.followed or has_valid_record(changed, wrong.offset, key, raft=False), at


async def test_the_newest_fact_is_covered_by_the_index_of_a_clean_end(server: NatsServer) -> None:
    await make_streams(server)
    client = await connected(server)
    await publish(client, random.Random(2), 50, "facts")
    await client.close()
    server.stop()
    [path] = server.store.rglob("FACTS/msgs/*.blk")
    path.write_bytes(flipped(path.read_bytes(), -20))
    [facts] = check(server.store).damaged
    assert "index.db has positions up to 50, not 49" in facts.damage[0]


async def test_a_server_reads_a_damaged_block_without_an_error(server: NatsServer) -> None:
    """The reason for the check: nats-server cuts the stream short, and only its log has a warning."""
    await make_streams(server)
    client = await connected(server)
    await publish(client, random.Random(2), 400, "facts")
    await client.close()
    server.kill()
    [path] = server.store.rglob("FACTS/msgs/*.blk")
    (path.parent / "index.db").unlink(missing_ok=True)
    path.write_bytes(flipped(path.read_bytes(), path.stat().st_size // 2))
    assert [store.name for store in check(server.store).damaged] == ["FACTS"]
    server.start()
    client = await connected(server)
    kept = (await client.jetstream().stream_info("FACTS")).state.messages
    await client.close()
    assert 100 < kept < 300
