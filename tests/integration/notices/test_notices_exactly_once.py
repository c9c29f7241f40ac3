"""Notices through kills of the service and failures of the receiver: each delivered, repeated ones under the
same id, the order of each run kept."""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from runspine.eventlog import EventLog
from runspine.services.notices.core.message import signature
from runspine.wire.v1.trainer_pb2 import SENT
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.notices_service import WrittenRun, notices_file, notices_process, read_book, webhook
from tests.kit.servers.receiver import Post, Receiver
from tests.kit.waiting import eventually

Connect = Callable[..., Awaitable[Any]]


async def written_runs(log: EventLog, runs: int, notices: int) -> list[WrittenRun]:
    """Runs with so many facts each that the rule is about."""
    written = [WrittenRun(log, f"run {number}") for number in range(runs)]
    for run in written:
        await run.submit()
    for attempt in range(2, notices + 2):
        for run in written:
            await run.requeue(attempt)
    return written


async def through_kills(
    server: NatsServer, log: EventLog, directory: Path, *, runs: int, notices: int, kills: int, replicas: int
) -> Receiver:
    """Write facts, kill the service again and again while it sends, and wait until all was accepted."""
    total = runs * notices
    with Receiver(failing=0.5, lost_answers=0.05) as receiver, ExitStack() as stack:
        content = {
            "channels": {"hook": webhook(directory, receiver.url)},
            "rules": [{"name": "again", "on": "retried", "channels": ["hook"]}],
        }
        file = notices_file(directory, content)
        services = [
            stack.enter_context(notices_process(server.url, directory, file)) for _ in range(replicas)
        ]
        await eventually(lambda: "projection.ready" in services[0].output())
        await written_runs(log, runs, notices)
        for kill in range(kills):
            wanted = total * (kill + 1) // (kills + 1)
            await eventually(lambda: len(receiver.accepted_ids()) >= wanted, 600)  # noqa: B023 - awaited here
            service = services[kill % replicas]
            service.kill()
            service.start()
        await eventually(lambda: len(receiver.accepted_ids()) == total, 600)
        await eventually(lambda: all_sent(log, total), 120)
    return receiver


async def all_sent(log: EventLog, total: int) -> bool:
    book = await read_book(log)
    states = [entry.state for history in book.histories.values() for entry in history.entries.values()]
    settled = sum(len(history.settled) for history in book.histories.values())
    return not book.open and states.count(SENT) + settled == total


async def check(receiver: Receiver, log: EventLog, runs: int, notices: int) -> None:
    """What must hold of everything that the receiver was sent."""
    book = await read_book(log)
    known = {key for h in book.histories.values() for key in (*h.entries, *h.settled)}
    assert set(receiver.accepted_ids()) == known
    assert len(known) == runs * notices
    by_id: dict[str, list[Post]] = defaultdict(list)
    for post in receiver.posts:
        by_id[post.id].append(post)
    assert all(len({post.body for post in posts}) == 1 for posts in by_id.values())
    assert all(is_signed(post) for post in receiver.posts)
    order: dict[str, list[int]] = defaultdict(list)
    for notice_id in receiver.accepted_ids():
        content = by_id[notice_id][0].content
        assert content["id"] == notice_id
        order[content["run"]["id"]].append(content["number"])
    assert [*order.values()] == [list(range(1, notices + 1))] * runs


def is_signed(post: Post) -> bool:
    wanted = signature("the key of the hook", int(post.headers["x-runspine-time"]), post.body)
    return hmac.compare_digest(wanted, post.headers["x-runspine-signature"])


async def test_every_notice_arrives_in_order_through_two_kills(
    nats_server: NatsServer, connect: Connect, tmp_path: Path
) -> None:
    log = (await connect("orchestrator")).log
    receiver = await through_kills(nats_server, log, tmp_path, runs=3, notices=10, kills=2, replicas=1)
    await check(receiver, log, 3, 10)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_thousand_notices_arrive_in_order_through_twenty_kills_of_two_replicas(
    nats_server: NatsServer, connect: Connect, tmp_path: Path
) -> None:
    log = (await connect("orchestrator")).log
    receiver = await through_kills(nats_server, log, tmp_path, runs=20, notices=50, kills=20, replicas=2)
    await check(receiver, log, 20, 50)
    accepted = receiver.accepted()
    print(
        f"{len(receiver.posts):,} requests, {len(accepted):,} accepted, "
        f"{len(accepted) - len(receiver.accepted_ids()):,} of them repeated"
    )
