"""The log on three nats-servers with three replicas: what one server promises, a cluster keeps."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from runspine.eventlog import ConflictError, UnknownOutcomeError, Version
from runspine.eventlog.api import ask
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.nats_py import Client
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.streams import ensure_streams
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact
from tests.kit.servers.nats import free_port
from tests.kit.servers.nats_cluster import ClusterNode, NatsCluster, nats_cluster

PAIRS = 150
FROZEN_SECONDS = 4.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with nats_cluster(tmp_path_factory.mktemp("cluster")) as started:
        asyncio.run(_make_streams(started))
        started.wait_until_whole()
        yield started


async def _make_streams(cluster: NatsCluster) -> None:
    async with NatsConnection(cluster.account("orchestrator"), "test") as link:
        await ensure_streams(link, replicas=3)


@asynccontextmanager
async def writer(cluster: NatsCluster, *nodes: ClusterNode) -> AsyncIterator[JetStreamLog]:
    """A writer that is connected to one of these nodes."""
    async with (
        NatsConnection(cluster.account("admin", *nodes), new_ulid()) as link,
        Publisher(link) as publisher,
    ):
        yield JetStreamLog(link, publisher)


async def test_one_message_id_published_twice_at_once_is_stored_once(cluster: NatsCluster) -> None:
    async with (
        NatsConnection(cluster.account("admin", cluster.nodes[0]), "one") as left,
        NatsConnection(cluster.account("admin", cluster.nodes[1]), "two") as right,
        Publisher(left) as first,
        Publisher(right) as second,
    ):
        for number in range(PAIRS):
            headers = {MESSAGE_ID: f"{number}"}
            positions = await asyncio.gather(
                *(side.publish("work.default.1", b"offer", headers) for side in (first, second))
            )
            assert positions[0] == positions[1]


async def test_what_was_acknowledged_is_read_on_every_node(cluster: NatsCluster) -> None:
    followers = cluster.followers_of("RUNS")
    async with (
        writer(cluster, cluster.wait_for_leader("RUNS")) as at_leader,
        writer(cluster, followers[0]) as one,
        writer(cluster, followers[1]) as other,
    ):
        version = Version()
        for number in range(PAIRS):
            version = await at_leader.append("runs.seen", [Fact(at=number)], expected=version)
            seen = await asyncio.gather(*(side.read("runs.seen") for side in (one, other)))
            assert [found[1] for found in seen] == [version, version]


async def test_the_loser_of_a_race_reads_the_winner(cluster: NatsCluster) -> None:
    async def race(log: JetStreamLog, subject: str, side: int) -> int:
        try:
            await log.append(subject, [Fact(at=side)], expected=Version())
        except ConflictError:
            history, _ = await log.read(subject)
            return history[0].commit.facts[0].at
        return side

    followers = cluster.followers_of("RUNS")
    async with writer(cluster, followers[0]) as one, writer(cluster, followers[1]) as other:
        for number in range(PAIRS):
            subject = f"keys.race{number}"
            winners = await asyncio.gather(race(one, subject, 1), race(other, subject, 2))
            assert winners[0] == winners[1]


async def test_of_two_appends_that_expect_the_same_end_of_the_stream_one_is_stored(
    cluster: NatsCluster,
) -> None:
    """The fence of a janitor: the subjects differ, and one of the two is an election it has not read."""

    async def race(log: JetStreamLog, subject: str, end: int) -> bool:
        try:
            await log.append(subject, [Fact(at=1)], expected=Version(), stream_end=end)
        except ConflictError:
            return False
        return True

    followers = cluster.followers_of("ARTIFACTS")
    async with writer(cluster, followers[0]) as one, writer(cluster, followers[1]) as other:
        for number in range(PAIRS // 5):
            end = (await one.extent("ARTIFACTS")).last
            stored = await asyncio.gather(
                race(one, f"artifacts.one{number}", end), race(other, f"artifacts.other{number}", end)
            )
            assert sum(stored) == 1
            assert (await one.extent("ARTIFACTS")).last == end + 1


async def gap(log: JetStreamLog, subject: str, seconds: float) -> tuple[int, float]:
    """How many appends, each after a read, were accepted in this time, and the longest wait for one."""
    longest, before = 0.0, time.monotonic()
    until = before + seconds
    accepted = 0
    while time.monotonic() < until:
        with contextlib.suppress(UnknownOutcomeError, NatsUnreachableError):
            _, version = await log.read(subject)
            await log.append(subject, [Fact(at=accepted)], expected=version)
            accepted += 1
            longest, before = max(longest, time.monotonic() - before), time.monotonic()
    return accepted, max(longest, time.monotonic() - before)


async def test_a_frozen_follower_does_not_stop_writes(cluster: NatsCluster) -> None:
    leader = cluster.wait_for_leader("RUNS")
    follower = cluster.followers_of("RUNS")[0]
    async with writer(cluster, leader) as log:
        version = await log.append("runs.frozen", [Fact()], expected=Version())
        await log.append("runs.frozen", [Fact()], expected=version)
        with follower.frozen():
            accepted, longest = await gap(log, "runs.frozen", FROZEN_SECONDS)
    cluster.wait_until_whole()
    assert longest < FROZEN_SECONDS / 2
    # Not one read in three may wait for the frozen replica: each of those would take half a second or more.
    assert accepted > 60


@pytest.mark.long
async def test_a_connection_leaves_a_frozen_server(cluster: NatsCluster) -> None:
    follower = cluster.followers_of("RUNS")[0]
    others = [node for node in cluster.nodes if node is not follower]
    async with (
        NatsConnection(cluster.account("admin", follower), "test") as link,
        Publisher(link) as publisher,
    ):
        log = JetStreamLog(link, publisher)
        await log.append("runs.left", [Fact()], expected=Version())
        with follower.frozen():
            _, longest = await gap(log, "runs.left", 2 * FROZEN_SECONDS)
            used = link.client.connected_url
    cluster.wait_until_whole()
    assert longest < 2 * FROZEN_SECONDS - 1
    assert used is not None
    assert used.netloc in {f"{node.place.host}:{node.place.client}" for node in others}


async def test_a_connection_leaves_a_server_that_reaches_no_leader(cluster: NatsCluster) -> None:
    follower = cluster.followers_of("RUNS")[0]
    cut_off = ""

    class Routed(Client):
        """The route of one server is cut: it answers pings, and what is published there goes nowhere."""

        async def publish(self, *words: Any, **more: Any) -> None:
            if self.connected_url is None or self.connected_url.netloc != cut_off:
                await super().publish(*words, **more)

    async with (
        NatsConnection(cluster.account("admin", follower), "test", Routed) as link,
        Publisher(link) as publisher,
    ):
        log = JetStreamLog(link, publisher)
        version = await log.append("runs.cut", [Fact()], expected=Version())
        assert link.client.connected_url is not None
        cut_off = link.client.connected_url.netloc
        began = time.monotonic()
        await log.append("runs.cut", [Fact()], expected=version)
        # Two seconds of silence, at most one until that is noticed, and a new connection.
        assert time.monotonic() - began < 5.0
        assert link.client.connected_url.netloc != cut_off


async def test_one_seed_that_answers_is_enough(cluster: NatsCluster) -> None:
    dead = f"nats://127.0.0.1:{free_port()}"
    account = cluster.account("admin", cluster.nodes[0])
    async with (
        asyncio.timeout(60),
        NatsConnection(replace(account, url=f"{dead}, {account.url}"), "t") as link,
    ):
        assert await ask(link, "STREAM.INFO.RUNS")
