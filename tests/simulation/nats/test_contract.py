"""The model of JetStream is held to the real server: the same cases, the same answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.streams import declarations, ensure_streams
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.nats_cluster import NatsCluster, nats_cluster
from tests.simulation.nats.client import SimulatedClient
from tests.simulation.nats.contract_cases import CASES, Case, Peer
from tests.simulation.plan import Plan
from tests.simulation.world import World, quiet

WRITERS = 8
ROUNDS = 40


async def _nothing() -> None:
    """A callback of a connection."""


def on_model(case: Case, servers: int = 1, seed: int = 1) -> list[Any]:
    world = World(Plan("contract", seed), servers)
    found: list[Any] = []

    async def main() -> None:
        client = SimulatedClient(world.cluster)
        await client.connect(
            [server.url for server in world.cluster.servers],
            inbox_prefix=b"_INBOX",
            connect_timeout=2,
            reconnect_time_wait=0.2,
            reconnected_cb=_nothing,
            closed_cb=_nothing,
        )
        found.extend(await case(Peer(client)))
        await client.close()

    with quiet():
        world.run(main, 600.0)
    assert world.problems == []
    return found


async def on_server(case: Case, url: str, **options: Any) -> list[Any]:
    client = Client()
    await client.connect(url, **options)
    try:
        return await case(Peer(client))
    finally:
        await client.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    started = NatsServer(tmp_path_factory.mktemp("nats"))
    started.start()
    yield started
    started.stop()


@pytest.fixture
def empty_server(server: NatsServer) -> NatsServer:
    asyncio.run(_delete_streams(server.url))
    return server


async def _delete_streams(url: str) -> None:
    async def delete(peer: Peer) -> list[Any]:
        for config in declarations():
            await peer.ask(f"STREAM.DELETE.{config['name']}")
        return []

    await on_server(delete, url)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_model_answers_as_the_server_does(case: Case, empty_server: NatsServer) -> None:
    real = asyncio.run(on_server(case, empty_server.url))
    assert on_model(case) == real


async def _race(peer: Peer) -> list[Any]:
    """Several writers at once on one subject, and one message id several times at once."""
    outcomes: Counter[str] = Counter()
    for number in range(ROUNDS):
        subject = f"runs.x{number}"
        answers = await asyncio.gather(
            *(
                peer.append(subject, Msg_Id=f"{number}-{writer}", Expected_Last_Subject_Sequence="0")
                for writer in range(WRITERS)
            )
        )
        outcomes.update(f"subject {_outcome(answer)}" for answer in answers)
        answers = await asyncio.gather(*(peer.append("work.p.1", Msg_Id=f"{number}") for _ in range(WRITERS)))
        outcomes.update(f"id {_outcome(answer)}" for answer in answers)
        late = await peer.append(subject, Msg_Id=f"{number}-late", Expected_Last_Subject_Sequence="0")
        again = await peer.append("work.p.1", Msg_Id=f"{number}")
        outcomes.update([f"subject {_outcome(late)}", f"id {_outcome(again)}"])
        assert len({answer["seq"] for answer in answers if "seq" in answer}) == 1
    assert outcomes["subject stored"] == outcomes["id stored"] == ROUNDS
    return sorted(outcomes)


def _outcome(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return json.dumps(answer["error"]["err_code"])
    return "duplicate" if answer.get("duplicate") else "stored"


async def _streams_of(cluster: NatsCluster) -> None:
    async with NatsConnection(cluster.account("orchestrator"), "test") as link:
        await ensure_streams(link, replicas=3)


async def _race_on_model(peer: Peer) -> list[Any]:
    for config in declarations(replicas=3):
        await peer.ask(f"STREAM.CREATE.{config['name']}", config)
    return await _race(peer)


@pytest.mark.long
def test_a_race_in_the_model_has_the_outcomes_of_a_real_cluster(tmp_path: Path) -> None:
    with nats_cluster(tmp_path) as cluster:
        asyncio.run(_streams_of(cluster))
        account = cluster.account("admin", cluster.followers_of("RUNS")[0])
        login = {"user": account.user, "password": account.password}
        real = asyncio.run(on_server(_race, account.url, **login))
    assert "id 10158" in real
    assert "subject 10164" in real
    found = {outcome for seed in range(5) for outcome in on_model(_race_on_model, 3, seed)}
    assert found == set(real)
