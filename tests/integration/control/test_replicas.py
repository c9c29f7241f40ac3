"""Streams of a living log change their number of replicas in place, and nothing on them is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runspine.eventlog.api import ask
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.streams import StreamRefusedError, ensure_streams
from runspine.eventlog.subjects import AUDIT, BEATS, FACT_STREAMS, NOTICES, TELEMETRY, WORK, beat_subject
from runspine.eventlog.tail import Tail
from runspine.wire.v1.facts_pb2 import Fact
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.nats_cluster import NatsCluster, nats_cluster

STREAMS = (*FACT_STREAMS, AUDIT, NOTICES, TELEMETRY, WORK, BEATS)
WRITTEN = ("runs.r1", "attempts.r1", "artifacts.r1")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    with nats_cluster(tmp_path / "cluster") as started:
        yield started


@asynccontextmanager
async def site(cluster: NatsCluster) -> AsyncIterator[tuple[NatsConnection, Publisher, JetStreamLog]]:
    async with NatsConnection(cluster.account("admin"), "admin") as link, Publisher(link) as publisher:
        yield link, publisher, JetStreamLog(link, publisher)


async def configure(cluster: NatsCluster, replicas: int) -> dict[str, str]:
    """What an orchestrator does at its start, with the rights that it has."""
    async with NatsConnection(cluster.account("orchestrator"), "orchestrator") as link:
        return {change.stream: change.what for change in await ensure_streams(link, replicas=replicas)}


async def write(publisher: Publisher, log: JetStreamLog, count: int) -> None:
    """Facts on every stream, telemetry, an offer and a heartbeat."""
    for subject in WRITTEN:
        _, version = await log.read(subject)
        for number in range(count):
            version = await log.append(subject, [Fact(at=number)], expected=version)
    for number in range(count):
        await publisher.publish("telemetry.r1.1.steps", bytes(1000), {MESSAGE_ID: f"t{number}"})
    await publisher.publish("work.default.1", b"offer", {})
    await publisher.publish(beat_subject("w1"), b"beat", {})


async def held(link: NatsConnection) -> dict[str, tuple[int, int, int, int]]:
    """Of each stream: replicas, and first and last position and number of messages."""
    found = {}
    for stream in STREAMS:
        info = await ask(link, f"STREAM.INFO.{stream}")
        state = info["state"]
        found[stream] = (
            info["config"]["num_replicas"],
            state["first_seq"],
            state["last_seq"],
            state["messages"],
        )
    return found


async def problems(log: JetStreamLog) -> list[str]:
    """What `runspine events verify` would report."""
    found = []
    for stream in FACT_STREAMS:
        verifier = ChainVerifier(stream)
        async for recorded in log.follow(stream, live=False):
            verifier.feed(recorded.sequence, recorded.subject, recorded.data, recorded.digest)
        found += [str(problem) for problem in verifier.finish((await log.extent(stream)).last)]
    return found


async def test_replicas_go_from_one_to_three_and_back_on_a_living_log(cluster: NatsCluster) -> None:
    created = await configure(cluster, 1)
    assert created == dict.fromkeys(STREAMS, "created")
    assert await configure(cluster, 1) == {}
    async with site(cluster) as (link, publisher, log):
        await write(publisher, log, 20)
        before = await held(link)
        beats = Tail(link, BEATS).deliveries()
        assert (await anext(beats)).data == b"beat"

        for replicas in (3, 1):
            done = await configure(cluster, replicas)
            assert done.pop(BEATS).startswith("deleted and created again from position")
            assert done == dict.fromkeys(
                (*FACT_STREAMS, AUDIT, NOTICES, TELEMETRY, WORK), "updated in place: num_replicas"
            )
            assert await configure(cluster, replicas) == {}
            cluster.wait_until_whole()
            after = await held(link)
            for stream in done:
                assert after[stream] == (replicas, *before[stream][1:]), stream
            assert after[BEATS][0] == replicas
            assert await problems(log) == []

            await write(publisher, log, 5)
            # A reader of heartbeats goes on where it was: positions do not begin again.
            async with asyncio.timeout(60):
                assert (await anext(beats)).data == b"beat"
            before = await held(link)
        for subject in WRITTEN:
            history, version = await log.read(subject)
            assert (len(history), version.number) == (30, 30)
        await beats.aclose()


@pytest.mark.long
async def test_a_node_of_three_replicas_can_be_replaced_by_an_empty_one(cluster: NatsCluster) -> None:
    await configure(cluster, 3)
    async with site(cluster) as (_, publisher, log):
        await write(publisher, log, 10)
        node = cluster.wait_for_leader("RUNS")
        node.stop()
        node.wipe()
        node.start()
        cluster.wait_until_whole()
        assert await problems(log) == []
        assert len((await log.read("runs.r1"))[0]) == 10
        await write(publisher, log, 1)


async def test_three_replicas_on_one_server_are_refused_with_the_remedy(nats_server: NatsServer) -> None:
    async with NatsConnection(NatsAccount(nats_server.url), "test") as link:
        with pytest.raises(StreamRefusedError, match="RUNSPINE_STREAM_REPLICAS=1 or start three"):
            await ensure_streams(link, replicas=3)


async def test_telemetry_that_an_earlier_release_compressed_is_stored_uncompressed_from_then_on(
    nats_server: NatsServer,
) -> None:
    async with NatsConnection(NatsAccount(nats_server.url), "test") as link, Publisher(link) as publisher:
        await ensure_streams(link)
        config = (await ask(link, "STREAM.INFO.TELEMETRY"))["config"]
        await ask(link, "STREAM.UPDATE.TELEMETRY", {**config, "compression": "s2"})
        for number in range(20):
            await publisher.publish("telemetry.r1.1.steps", bytes(1000), {MESSAGE_ID: f"t{number}"})
        done = {change.stream: change.what for change in await ensure_streams(link)}
        assert done == {TELEMETRY: "updated in place: compression"}
        info = await ask(link, "STREAM.INFO.TELEMETRY")
        assert (info["config"]["compression"], info["state"]["messages"]) == ("none", 20)
