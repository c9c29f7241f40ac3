"""A flipped bit on one of three nats-servers, which then leads: the check before its start saves the others.

Without `check_stores` and the assertion on `set_aside`, the flip in the stream left 57 of 150 facts readable
from a leader that counts as healthy. `python -m tests.chaos.cluster --only flip --unchecked` shows it only by
luck: the server reads a damaged block at its start when its index is older than the block, as after a kill.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from runspine.eventlog import Version
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import ensure_streams
from runspine.wire.v1.facts_pb2 import Fact
from tests.chaos.cluster.strikes import flippable
from tests.kit.samples.nats_blocks import flipped
from tests.kit.servers.nats_cluster import ClusterNode, NatsCluster, nats_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FACTS = 150
LATER = 20


async def append(cluster: NatsCluster, subject: str, count: int) -> None:
    async with NatsConnection(cluster.account("admin"), "writer") as link, Publisher(link) as publisher:
        await ensure_streams(link, replicas=3)
        log, version = JetStreamLog(link, publisher), Version()
        for number in range(count):
            version = await log.append(subject, [Fact(at=number)], expected=version)


async def kept(cluster: NatsCluster, subject: str) -> list[int]:
    async with NatsConnection(cluster.account("admin"), "reader") as link, Publisher(link) as publisher:
        history, _ = await JetStreamLog(link, publisher).read(subject)
        return [recorded.commit.facts[0].at for recorded in history]


def flip(node: ClusterNode, folder: str, chance: random.Random) -> None:
    """In the middle of the largest block."""
    path = max(node.store.rglob(f"{folder}/msgs/*.blk"), key=lambda each: each.stat().st_size)
    size = path.stat().st_size
    assert size > 1000
    path.write_bytes(
        flipped(path.read_bytes(), chance.randrange(size // 4, size * 3 // 4), chance.randrange(8))
    )


def lead_by(cluster: NatsCluster, node: ClusterNode) -> None:
    """Kill leaders of RUNS until this node is the leader."""
    for _ in range(12):
        leader = cluster.wait_for_leader("RUNS")
        if leader is node:
            return
        leader.kill()
        cluster.wait_for_leader("RUNS")
        leader.start()
        cluster.wait_until_whole()


@pytest.mark.parametrize("part", ["streams", "_js_"])
async def test_a_flipped_bit_of_a_minority_loses_nothing(tmp_path: Path, part: str) -> None:
    with nats_cluster(tmp_path / "cluster") as cluster:
        cluster.check_stores()
        await append(cluster, "runs.r1", FACTS)
        cluster.wait_until_whole()
        node = cluster.followers_of("RUNS")[0]
        # After a clean end the Raft log begins behind these facts: they are not restored from it.
        node.restart()
        cluster.wait_until_whole()
        await append(cluster, "runs.r2", LATER)
        [folder] = [each for name, each in flippable(node) if name == "RUNS" and each.startswith(part)]
        # Its index is older than its blocks, so it reads them at its start.
        node.kill()
        flip(node, folder, random.Random(1))
        node.start()
        assert len(node.set_aside) == 1
        cluster.wait_until_whole()
        lead_by(cluster, node)
        assert await kept(cluster, "runs.r1") == list(range(FACTS))
        assert await kept(cluster, "runs.r2") == list(range(LATER))
        assert [len(each.set_aside) for each in cluster.nodes if each is not node] == [0, 0]


async def test_two_damaged_servers_do_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kit.servers.nats_cluster.PEERS_SECONDS", 3.0)
    with nats_cluster(tmp_path / "cluster") as cluster:
        cluster.check_stores()
        await append(cluster, "runs.r1", FACTS)
        cluster.wait_until_whole()
        damaged = cluster.followers_of("RUNS")
        for node in damaged:
            node.stop()
            flip(node, "streams/RUNS", random.Random(1))
        for node in damaged:
            node.start()
            assert not node.running
            assert node.set_aside == []
            assert "decide which store to keep" in (node.directory / "check.log").read_text()
