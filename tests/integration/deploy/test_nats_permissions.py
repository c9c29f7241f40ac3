"""Who may do what on NATS, asked of the real server: the kernel's work passes, all else is refused."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from runspine.embedded import Stack, running_stack
from runspine.eventlog.connection import NatsAccount, NatsConnection, NatsUnreachableError
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.permissions import USERS, inbox_of
from runspine.eventlog.port import Version
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import declarations, ensure_streams, wait_for_streams
from runspine.wire.v1.facts_pb2 import Fact

SERVICES = [user for user in USERS if user != "admin"]

# Every kind of subject, and the only services that may publish it.
WRITERS = {
    "runs.r1": {"orchestrator"},
    "keys.k1": {"orchestrator"},
    "work.default.5": {"orchestrator"},
    "attempts.r1": {"worker"},
    "workers.w1": {"worker"},
    "telemetry.r1.1.steps": {"worker"},
    "beats.w1": {"worker"},
    "beats.~": {"orchestrator", "worker"},
    "frames.r1.0": {"worker"},
    "signers.k": {"orchestrator", "worker", "artifacts", "janitor", "notices", "launcher"},
    "placements.r1": {"launcher"},
    "notices.r1": {"notices"},
    "notice_requests.r1": {"orchestrator"},
    "artifacts.r1": {"artifacts", "janitor"},
    "janitor.pulse": {"artifacts", "janitor"},
    "control.r1": {"dashboard"},
    "audit.orchestrator.p1": {"orchestrator"},
    "audit.telemetry.p1": {"telemetry"},
    "audit.artifacts.p1": {"artifacts"},
    "audit.dashboard.p1": {"dashboard"},
    "$JS.API.STREAM.CREATE.EXTRA": set(),
    "$JS.API.STREAM.CREATE.RUNS": {"orchestrator"},
    "$JS.API.STREAM.UPDATE.RUNS": {"orchestrator"},
    "$JS.API.STREAM.PURGE.TELEMETRY": {"telemetry"},
    "$JS.API.STREAM.PURGE.RUNS": set(),
    "$JS.API.STREAM.MSG.DELETE.WORK": {"orchestrator"},
    "$JS.API.STREAM.DELETE.RUNS": set(),
    "$JS.API.STREAM.RESTORE.RUNS": set(),
    "$JS.API.CONSUMER.CREATE.WORK.mine": set(),
    "$JS.API.CONSUMER.DURABLE.CREATE.WORK.mine": {"orchestrator"},
    "$JS.API.CONSUMER.DELETE.WORK.pool-default": set(),
    "$JS.API.CONSUMER.MSG.NEXT.WORK.pool-default": {"worker"},
    "$JS.API.CONSUMER.CREATE.TELEMETRY.mine": set(),
    "$JS.ACK.WORK.pool-default.1.1.1.1.1": {"worker"},
    "preflight.w1": {"orchestrator"},
    "_INBOX_orchestrator.x": set(),
    "_INBOX_orchestrator.ask.0123.1": set(),
    # Replies to launch checks, and nothing else of the orchestrator's inbox.
    "_INBOX_orchestrator.preflight.0123.1": {"worker"},
    # Requests to sign uploads, and their answers.
    "uploads.w1": {"worker"},
    "_INBOX_worker.uploads.0123.1": {"artifacts"},
    "_INBOX_worker.ask.0123.1": set(),
    "anything.else": set(),
}

READABLE = {
    "orchestrator": ["RUNS", "ATTEMPTS", "TELEMETRY", "ARTIFACTS", "WORK", "BEATS", "AUDIT", "NOTICES"],
    "worker": ["RUNS", "ATTEMPTS"],
    "telemetry": ["RUNS", "ATTEMPTS", "TELEMETRY"],
    "artifacts": ["RUNS", "ATTEMPTS", "ARTIFACTS"],
    "janitor": ["RUNS", "ATTEMPTS", "ARTIFACTS"],
    "dashboard": ["RUNS", "ATTEMPTS", "ARTIFACTS", "BEATS"],
    "launcher": ["RUNS", "ATTEMPTS"],
    "notices": ["RUNS", "ATTEMPTS", "NOTICES"],
    "admin": ["RUNS", "ATTEMPTS", "TELEMETRY", "ARTIFACTS", "WORK", "BEATS", "AUDIT", "NOTICES"],
}


class Fleet:
    """A server with its streams, and a client for each user who wants one."""

    def __init__(self, stack: Stack, open_here: AsyncExitStack) -> None:
        self._stack = stack
        self._open = open_here
        self.url = f"nats://{stack.addresses['nats']}"

    def password(self, user: str) -> str:
        return self._stack.credentials.nats[user]

    async def link(self, user: str) -> NatsConnection:
        account = NatsAccount(self.url, user, self.password(user), inbox_of(user))
        return await self._open.enter_async_context(NatsConnection(account, f"test-{user}"))

    async def log(self, user: str) -> JetStreamLog:
        link = await self.link(user)
        return JetStreamLog(link, await self._open.enter_async_context(Publisher(link)))

    @asynccontextmanager
    async def bare(self, user: str) -> AsyncIterator[tuple[Client, list[str]]]:
        """A plain client and the errors the server has sent it."""
        errors: list[str] = []

        async def keep(error: Exception) -> None:
            errors.append(str(error))

        client = await nats.connect(self.url, user=user, password=self.password(user), error_cb=keep)
        try:
            yield client, errors
        finally:
            await client.close()


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with running_stack(tmp_path / "home", only={"nats"}) as stack, AsyncExitStack() as open_here:
        fleet = Fleet(stack, open_here)
        await ensure_streams(await fleet.link("orchestrator"))
        yield fleet


async def refused(client: Client, errors: list[str], verb: str, subjects: list[str]) -> set[str]:
    """Those of the subjects that the server does not let this client publish or subscribe to."""
    act = client.publish if verb == "publish" else client.subscribe
    # The server answers in order: the answer to the last one comes after all the others.
    for subject in [*subjects, f"_INBOX_{verb}.forbidden.to.all"]:
        await act(subject)
    deadline = time.monotonic() + 60
    while not any("forbidden.to.all" in error for error in errors):
        assert time.monotonic() < deadline, errors
        await asyncio.sleep(0.01)
    emitted = "\n".join(errors).lower()
    return {subject for subject in subjects if f'"{subject.lower()}"' in emitted}


async def test_each_service_publishes_its_own_subjects_and_no_others(fleet: Fleet) -> None:
    allowed: dict[str, set[str]] = {subject: set() for subject in WRITERS}
    for user in SERVICES:
        async with fleet.bare(user) as (client, errors):
            for subject in WRITERS.keys() - await refused(client, errors, "publish", list(WRITERS)):
                allowed[subject].add(user)
    assert allowed == WRITERS


async def test_no_user_receives_what_is_not_meant_for_it(fleet: Fleet) -> None:
    families = [
        "runs.*",
        "keys.*",
        "attempts.*",
        "workers.*",
        "telemetry.>",
        "artifacts.*",
        "work.>",
        "beats.*",
    ]
    system = ["$JS.API.>", "$JS.EVENT.>", "$JS.ACK.>", "$SYS.>", "_INBOX.>", ">"]
    inboxes = [f"{inbox_of(user)}.>" for user in USERS]
    news = [f"stored.{stream}.>" for stream in READABLE["admin"]]
    wanted = [*inboxes, "control.>", "frames.>", "preflight.*", "uploads.*", *news, *families, *system]
    received_so_far = {}
    for user in SERVICES:
        async with fleet.bare(user) as (client, errors):
            received_so_far[user] = set(wanted) - await refused(client, errors, "subscribe", wanted)
    own = {user: {f"{inbox_of(user)}.>"} for user in SERVICES}
    own["worker"] |= {"control.>", "preflight.*"}
    for user, streams in READABLE.items():
        if user in own:
            own[user] |= {f"stored.{stream}.>" for stream in streams}
    own["dashboard"].add("frames.>")
    own["artifacts"].add("uploads.*")
    assert received_so_far == own


@pytest.mark.parametrize("user", list(USERS))
async def test_each_user_reads_its_streams_through_the_kernel(fleet: Fleet, user: str) -> None:
    orchestrator, worker, artifacts = [await fleet.log(u) for u in ("orchestrator", "worker", "artifacts")]
    await orchestrator.append("runs.r1", [Fact()], expected=Version())
    await worker.append("attempts.r1", [Fact()], expected=Version())
    await artifacts.append("artifacts.r1", [Fact()], expected=Version())
    log = await fleet.log(user)
    subjects = {"RUNS": "runs.r1", "ATTEMPTS": "attempts.r1", "ARTIFACTS": "artifacts.r1"}
    for stream in READABLE[user]:
        expected = 1 if stream in subjects else 0
        assert (await log.extent(stream)).last == expected
        if subject := subjects.get(stream):
            history, _ = await log.read(subject)
            assert len(history) == 1
            assert len([r async for r in log.follow(stream, subject=subject, live=False)]) == 1
            followed = log.follow(stream)
            assert (await asyncio.wait_for(anext(followed), 60)).subject == subject
            await followed.aclose()


async def test_a_stream_that_is_not_its_own_cannot_be_read(fleet: Fleet) -> None:
    log = await fleet.log("worker")
    with pytest.raises(NatsUnreachableError, match=r"(?i)permissions violation"):
        await log.read("artifacts.r1")


async def test_every_service_can_wait_for_the_streams_it_uses(fleet: Fleet) -> None:
    for user in SERVICES:
        await wait_for_streams(await fleet.link(user), *READABLE[user], timeout=60)
    everything = [config["name"] for config in declarations()]
    await wait_for_streams(await fleet.link("worker"), *everything, timeout=60)


async def test_a_worker_takes_an_offer_and_acknowledges_it(fleet: Fleet) -> None:
    orchestrator, worker = await fleet.log("orchestrator"), await fleet.link("worker")
    control = await fleet.link("orchestrator")
    consumer = {
        "stream_name": "WORK",
        "config": {
            "durable_name": "pool-default",
            "ack_policy": "explicit",
            "filter_subject": "work.default.>",
        },
    }
    await ask(control, "CONSUMER.DURABLE.CREATE.WORK.pool-default", consumer)
    async with Publisher(control) as publisher:
        await publisher.publish("work.default.50", b"offer", {})
    assert (await ask(worker, "CONSUMER.INFO.WORK.pool-default", {}))["name"] == "pool-default"
    async with worker.conversation() as (inbox, arrived):
        pull = json.dumps({"batch": 1, "expires": 5_000_000_000}).encode()
        await worker.client.publish("$JS.API.CONSUMER.MSG.NEXT.WORK.pool-default", pull, reply=inbox)
        offer = await asyncio.wait_for(arrived.get(), 60)
    assert offer.data == b"offer"
    await worker.request(offer.reply, b"+ACK")
    assert (await orchestrator.extent("WORK")).commits == 0


async def test_telemetry_removes_what_it_has_archived(fleet: Fleet) -> None:
    worker, telemetry = await fleet.link("worker"), await fleet.link("telemetry")
    async with Publisher(worker) as publisher:
        for number in range(3):
            await publisher.publish("telemetry.r1.1.steps", b"batch", {"Nats-Msg-Id": str(number)})
    answer = await ask(telemetry, "STREAM.PURGE.TELEMETRY", {"filter": "telemetry.r1.>", "seq": 3})
    assert answer["purged"] == 2


async def test_frames_and_control_pass_between_worker_and_dashboard(fleet: Fleet) -> None:
    worker, dashboard = await fleet.link("worker"), await fleet.link("dashboard")
    received_so_far: asyncio.Queue[str] = asyncio.Queue()

    async def keep(message: Msg) -> None:
        received_so_far.put_nowait(message.subject)

    await worker.client.subscribe("control.r1", cb=keep)
    await dashboard.client.subscribe("frames.r1.*", cb=keep)
    await worker.client.flush()
    await dashboard.client.flush()
    await dashboard.client.publish("control.r1", b"look")
    assert await asyncio.wait_for(received_so_far.get(), 60) == "control.r1"
    await worker.client.publish("frames.r1.0", b"pixels")
    assert await asyncio.wait_for(received_so_far.get(), 60) == "frames.r1.0"


@pytest.mark.parametrize(
    "login", [{"user": "worker", "pass": "wrong"}, {"user": "nobody", "pass": ""}, {}], ids=str
)
async def test_without_the_right_password_there_is_no_connection(fleet: Fleet, login: dict[str, str]) -> None:
    host, _, port = fleet.url.removeprefix("nats://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"CONNECT {json.dumps({**login, 'verbose': False})}\r\nPING\r\n".encode())
        answer = (await asyncio.wait_for(reader.read(), 60)).decode()
    finally:
        writer.close()
        await writer.wait_closed()
    assert "Authorization Violation" in answer
    assert "PONG" not in answer


async def test_people_may_do_everything(fleet: Fleet) -> None:
    async with fleet.bare("admin") as (client, errors):
        for subject in WRITERS:
            await client.publish(subject)
        await client.subscribe(">")
        # An answer to this shows that all before it has been checked.
        await client.request("$JS.API.INFO")
        assert errors == []


async def ask(link: NatsConnection, verb: str, body: Mapping[str, object]) -> dict[str, object]:
    message = await link.request(f"$JS.API.{verb}", json.dumps(body).encode())
    answer: dict[str, object] = json.loads(message.data)
    assert "error" not in answer, answer
    return answer


# What changes or copies a stream, and who may: its owner creates it, nobody deletes facts.
CHANGES = {
    "STREAM.CREATE.{}": {"orchestrator"},
    "STREAM.UPDATE.{}": {"orchestrator"},
    "STREAM.DELETE.{}": set(),
    "STREAM.RESTORE.{}": set(),
    "STREAM.SNAPSHOT.{}": set(),
    "STREAM.MSG.DELETE.{}": set(),
    "STREAM.PURGE.{}": set(),
    "CONSUMER.CREATE.{}.any": set(),
    "CONSUMER.CREATE.{}.any.filter": set(),
    "CONSUMER.DELETE.{}.any": set(),
    "CONSUMER.DURABLE.CREATE.{}.any": set(),
    "CONSUMER.MSG.NEXT.{}.any": set(),
    "CONSUMER.LEADER.STEPDOWN.{}.any": set(),
}
READS = ("STREAM.MSG.GET.{}", "DIRECT.GET.{}")


def matrix(user: str) -> dict[str, bool]:
    """Every question of JetStream on every stream, and whether this user may ask it."""
    found = {}
    for stream in READABLE["admin"]:
        for verb, users in CHANGES.items():
            found[f"$JS.API.{verb.format(stream)}"] = user in users
        for verb in READS:
            found[f"$JS.API.{verb.format(stream)}"] = stream in READABLE[user]
    found["$JS.API.ACCOUNT.PURGE.RUNSPINE"] = False
    found["$JS.API.STREAM.DELETE.BEATS"] |= user == "orchestrator"
    found["$JS.API.STREAM.MSG.DELETE.WORK"] |= user == "orchestrator"
    found["$JS.API.CONSUMER.DURABLE.CREATE.WORK.any"] |= user == "orchestrator"
    found["$JS.API.STREAM.PURGE.TELEMETRY"] |= user == "telemetry"
    found["$JS.API.CONSUMER.MSG.NEXT.WORK.any"] |= user == "worker"
    return found


@pytest.mark.parametrize("user", SERVICES)
async def test_every_question_on_every_stream_is_answered_to_whom_it_may_concern(
    fleet: Fleet, user: str
) -> None:
    wanted = matrix(user)
    async with fleet.bare(user) as (client, errors):
        denied = await refused(client, errors, "publish", list(wanted))
    assert {subject: subject not in denied for subject in wanted} == wanted
