"""What a service may not write, it cannot have the server write: answers and deliveries stay in its account.

The operator listens to everything meanwhile: a consumer delivers only where somebody seems to listen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from runspine.embedded import running_stack
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.permissions import STREAMS, UPLOAD_REPLIES, USERS, inbox_of
from runspine.eventlog.streams import ensure_streams
from runspine.eventlog.subjects import ATTEMPTS, RUNS
from runspine.eventlog.zones import zone_of
from tests.kit.servers.nats_cluster import NatsCluster, nats_cluster

SERVICES = [user for user in USERS if user != "admin"]
FORGED = "01FORGED"
# One subject of every kind, and who may write it.
TARGETS = {
    f"runs.{FORGED}": {"orchestrator"},
    f"keys.{FORGED}": {"orchestrator"},
    f"attempts.{FORGED}": {"worker"},
    f"workers.{FORGED}": {"worker"},
    f"telemetry.{FORGED}.1.steps": {"worker"},
    f"beats.{FORGED}": {"worker"},
    f"artifacts.{FORGED}": {"artifacts", "janitor"},
    "work.default.5": {"orchestrator"},
    f"notices.{FORGED}": {"notices"},
    f"notice_requests.{FORGED}": {"orchestrator"},
    "audit.orchestrator.p": {"orchestrator"},
    "audit.dashboard.p": {"dashboard"},
    "$JS.API.STREAM.DELETE.RUNS": set(),
    "$JS.API.STREAM.DELETE.ARTIFACTS": set(),
    "$JS.API.STREAM.PURGE.TELEMETRY": {"telemetry"},
    f"stored.RUNS.runs.{FORGED}": set(),
}
# Messages that are not stored: who receives them, and who may send them.
RECEIVED = {
    f"control.{FORGED}": ("worker", {"dashboard"}),
    f"preflight.{FORGED}": ("worker", {"orchestrator"}),
    f"caches.{FORGED}": ("worker", {"orchestrator"}),
    f"processes.{FORGED}": ("worker", {"orchestrator"}),
    f"frames.{FORGED}.0": ("dashboard", {"worker"}),
    f"uploads.{FORGED}": ("artifacts", {"worker"}),
    f"{UPLOAD_REPLIES}.0123.1": ("worker", {"artifacts"}),
    f"{inbox_of('orchestrator')}.ask.1": ("orchestrator", set()),
    f"{inbox_of('telemetry')}.ask.1": ("telemetry", set()),
}


class Site:
    """A server with its streams, each of which holds a message, and an operator who listens to everything."""

    def __init__(self, url: str, passwords: dict[str, str], open_here: AsyncExitStack) -> None:
        self.url = url
        self.passwords = passwords
        self._open = open_here
        self.operator: Client

    def link(self, user: str) -> NatsConnection:
        return NatsConnection(NatsAccount(self.url, user, self.passwords[user], inbox_of(user)), user)

    async def client(self, user: str) -> Client:
        async def ignore(_: Exception) -> None:
            """Refusals are expected."""

        login = {"user": user, "password": self.passwords[user], "inbox_prefix": inbox_of(user).encode()}
        client = await nats.connect(self.url.split(","), error_cb=ignore, **login)
        self._open.push_async_callback(client.close)
        return client

    async def prepare(self, replicas: int) -> None:
        async with self.link("orchestrator") as link:
            await ensure_streams(link, replicas=replicas)
        self.operator = await self.client("admin")
        await self.operator.subscribe(">", cb=_drop)
        for stream in STREAMS:
            subject = next(s for s in _subjects(await self.info(stream)) if s)
            await self.operator.request(subject, b"", timeout=30)

    async def info(self, stream: str) -> dict[str, dict[str, object]]:
        answer = await self.operator.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=30)
        found: dict[str, dict[str, object]] = json.loads(answer.data)
        return found

    async def held(self) -> dict[str, object]:
        """How much each stream holds; None for one that is gone."""
        return {stream: (await self.info(stream)).get("state", {}).get("last_seq") for stream in STREAMS}


async def _drop(_: Msg) -> None:
    """Listens, and that is all."""


def _subjects(info: dict[str, dict[str, object]]) -> list[str]:
    patterns = info["config"]["subjects"]
    assert isinstance(patterns, list)
    return [pattern.replace("*", "carrier").replace(">", "carrier") for pattern in patterns]


@asynccontextmanager
async def _site(url: str, passwords: dict[str, str], replicas: int) -> AsyncIterator[Site]:
    async with AsyncExitStack() as open_here:
        site = Site(url, passwords, open_here)
        await site.prepare(replicas)
        yield site


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with nats_cluster(tmp_path_factory.mktemp("zones")) as started:
        yield started


@pytest.fixture(params=[1, pytest.param(3, marks=pytest.mark.long)], ids=["one", "cluster"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    if request.param == 3:
        cluster: NatsCluster = request.getfixturevalue("cluster")
        async with _site(cluster.url, cluster.passwords, 3) as found:
            yield found
        return
    async with running_stack(tmp_path / "home", only={"nats"}) as stack:
        url = f"nats://{stack.addresses['nats']}"
        async with _site(url, dict(stack.credentials.nats), 1) as found:
            yield found


def requests_of(user: str) -> list[tuple[str, bytes]]:
    """What this user may ask of JetStream, so that an answer comes."""
    asked = [subject for subject in USERS[user].publish if subject.startswith("$JS.API.")]
    bodies = {"DIRECT.GET": b'{"seq": 1}', "STREAM.MSG.GET": b'{"seq": 1}', "STREAM.INFO": b"", "INFO": b""}
    found = []
    for subject in asked:
        for verb, body in bodies.items():
            if subject.startswith(f"$JS.API.{verb}"):
                found.append((subject, body))
                break
    return found


def shares(user: str, others: set[str]) -> bool:
    """Whether one of these is in the account of the user, as artifacts and janitor are."""
    return zone_of(user) in {zone_of(other) for other in others}


@pytest.mark.parametrize("user", SERVICES)
async def test_an_answer_of_the_server_is_not_published_where_the_requester_may_not_publish(
    site: Site, user: str
) -> None:
    received: list[str] = []

    async def keep(message: Msg) -> None:
        received.append(message.subject)

    for subject, (listener, senders) in RECEIVED.items():
        if not shares(user, {listener, *senders}):
            await (await site.client(listener)).subscribe(subject, cb=keep)
    attacker = await site.client(user)
    before = await site.held()
    asked = requests_of(user)
    assert asked
    foreign = [subject for subject, writers in TARGETS.items() if user not in writers]
    foreign += [
        subject for subject, (listener, writers) in RECEIVED.items() if not shares(user, {listener, *writers})
    ]
    for target in foreign:
        for subject, body in asked:
            await attacker.publish(subject, body, reply=target)
    # The server has answered all of them when it answers this one.
    await attacker.request(*asked[0], timeout=30)
    await asyncio.sleep(0.3)
    assert await site.held() == before
    assert received == []


async def test_a_worker_cannot_have_an_offer_delivered_onto_a_run(site: Site) -> None:
    orchestrator, worker = await site.client("orchestrator"), await site.client("worker")
    config = {"durable_name": "pool-default", "ack_policy": "explicit", "filter_subject": "work.default.>"}
    body = json.dumps({"stream_name": "WORK", "config": config}).encode()
    made = await orchestrator.request("$JS.API.CONSUMER.DURABLE.CREATE.WORK.pool-default", body, timeout=30)
    assert "error" not in json.loads(made.data)
    await orchestrator.request("work.default.5", b"offer", timeout=30)
    before = await site.held()
    pull = json.dumps({"batch": 1, "no_wait": True}).encode()
    await worker.publish("$JS.API.CONSUMER.MSG.NEXT.WORK.pool-default", pull, reply=f"runs.{FORGED}")
    await worker.flush()
    await asyncio.sleep(0.3)
    assert await site.held() == before


async def test_no_reader_has_a_consumer_deliver_onto_a_run(site: Site) -> None:
    """Each form of the request, each also with a subject as filter."""
    before = await site.held()
    forged = f"runs.{FORGED}"
    config = {"deliver_subject": forged, "deliver_policy": "all", "ack_policy": "none"}
    for user in ("worker", "dashboard", "telemetry", "artifacts", "launcher"):
        attacker = await site.client(user)
        for verb in (
            f"CREATE.{ATTEMPTS}",
            f"CREATE.{ATTEMPTS}.evil",
            f"CREATE.{ATTEMPTS}.evil.attempts.*",
            f"DURABLE.CREATE.{ATTEMPTS}.evil",
        ):
            named = {**config, "name": "evil"} if "evil" in verb else config
            body = json.dumps({"stream_name": ATTEMPTS, "config": named}).encode()
            await attacker.publish(f"$JS.API.CONSUMER.{verb}", body, reply=f"{inbox_of(user)}.x")
        await attacker.flush()
    await asyncio.sleep(0.3)
    assert (await site.info(ATTEMPTS))["state"]["consumer_count"] == 0
    assert await site.held() == before


async def test_a_home_from_before_the_zones_keeps_its_facts(tmp_path: Path) -> None:
    """The account of the streams keeps its name: nothing moves on disk."""
    home = tmp_path / "home"
    async with running_stack(home, only={"nats"}) as stack:
        url, passwords = f"nats://{stack.addresses['nats']}", dict(stack.credentials.nats)
        async with AsyncExitStack() as open_here:
            operator = await Site(url, passwords, open_here).client("admin")
            old = {"name": RUNS, "subjects": ["runs.*", "keys.*", "signers.*"], "allow_direct": True}
            await operator.request(f"$JS.API.STREAM.CREATE.{RUNS}", json.dumps(old).encode(), timeout=30)
            await operator.request("runs.old", b"kept", timeout=30)
    async with running_stack(home, only={"nats"}) as stack:
        url, passwords = f"nats://{stack.addresses['nats']}", dict(stack.credentials.nats)
        async with AsyncExitStack() as open_here:
            site = Site(url, passwords, open_here)
            async with site.link("orchestrator") as link:
                [change] = [each for each in await ensure_streams(link) if each.stream == RUNS]
            assert "republish" in change.what
            reader = await site.client("dashboard")
            answer = await reader.request(f"$JS.API.DIRECT.GET.{RUNS}", b'{"seq": 1}', timeout=30)
            assert (answer.data, (answer.headers or {})["Nats-Subject"]) == (b"kept", "runs.old")
