"""The WORK stream as the orchestrator keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from runspine.eventlog.api import ask
from runspine.eventlog.subjects import WORK
from runspine.services.orchestrator.edges.offers import MANY_WORKERS, MAX_WAITING, OfferStream
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.run_pb2 import Offer
from tests.kit.played_worker import until_async

Connect = Callable[..., Awaitable[Any]]
FIRST, SECOND = (Offer(run_id=run_id, attempt=1, pool="default", priority=50) for run_id in ("r1", "r2"))


async def opened(connect: Connect, name: str = "orchestrator") -> OfferStream:
    client = await connect(name)
    return OfferStream(client.link, client.publisher, 15.0)


async def standing(offers: OfferStream) -> list[str]:
    return [entry.offer.run_id for entry in (await offers.posted()).get("default", [])]


async def test_an_offer_that_was_withdrawn_can_be_posted_again_at_once(connect: Connect) -> None:
    offers = await opened(connect)
    for _ in range(3):
        assert await standing(offers) == []
        await offers.post(FIRST)
        await offers.post(SECOND)
        assert await standing(offers) == ["r1", "r2"]
        for entry in (await offers.posted())["default"]:
            await offers.withdraw([entry])
    # Also by one that has just been started.
    again = await opened(connect)
    assert await standing(again) == []
    await again.post(FIRST)
    assert await standing(again) == ["r1"]


async def test_two_who_see_the_same_stream_post_an_offer_once(connect: Connect) -> None:
    one, other = await opened(connect, "one"), await opened(connect, "other")
    await one.post(SECOND)
    assert await standing(one) == await standing(other) == ["r2"]
    await one.post(FIRST)
    await other.post(FIRST)
    assert await standing(one) == ["r2", "r1"]


async def test_a_pool_that_grows_gets_a_consumer_for_more_idle_workers(connect: Connect) -> None:
    client = await connect("orchestrator")
    offers = OfferStream(client.link, client.publisher, 15.0)
    await offers.ensure_pool("default", MANY_WORKERS)
    await offers.post(FIRST)

    async def consumer() -> tuple[int, int, str]:
        info = await ask(client.link, f"CONSUMER.INFO.{WORK}.pool-default", {})
        return info["config"]["max_waiting"], info["num_pending"], info["created"]

    # As an earlier release makes it, which is not to be shut out by an update that is taken back.
    assert (await consumer())[:2] == (512, 1)
    await offers.ensure_pool("default", MANY_WORKERS + 1)
    grown = await consumer()
    assert grown[:2] == (MAX_WAITING, 1)
    for workers in (0, MANY_WORKERS + 1):
        again = await opened(connect)
        await again.ensure_pool("default", workers)
        assert await consumer() == grown


async def test_more_idle_workers_wait_than_the_server_allows_by_default(connect: Connect) -> None:
    offers = await opened(connect)
    await offers.ensure_pool("default", MANY_WORKERS + 1)
    fleet = await connect("fleet")
    refused: list[str] = []

    async def idle() -> None:
        async with fleet.link.conversation() as (inbox, arrived):
            body = b'{"batch": 1, "expires": 30000000000}'
            await fleet.link.publish(f"$JS.API.CONSUMER.MSG.NEXT.{WORK}.pool-default", body, inbox)
            message = await arrived.get()
            refused.append((message.headers or {}).get("Status", message.subject))

    waiting = [asyncio.create_task(idle()) for _ in range(700)]

    async def asked() -> int:
        info = await ask(fleet.link, f"CONSUMER.INFO.{WORK}.pool-default", {})
        return int(info["num_waiting"])

    await until_async(asked, 700)
    assert refused == []
    await cancel_and_wait(*waiting)


async def test_offers_are_posted_together_in_order_and_known_without_reading(connect: Connect) -> None:
    offers = await opened(connect)
    await offers.posted()
    many = [Offer(run_id=f"r{n:03d}", attempt=1, pool="default", priority=50) for n in range(100)]
    await offers.post(*many)
    known = [entry.offer.run_id for entry in offers.standing()["default"]]
    assert known == await standing(offers) == [offer.run_id for offer in many]
    offers.claimed({("r000", 1), ("r002", 1), ("r003", 2)})
    assert len(offers.standing()["default"]) == 98
    entries = offers.standing()["default"][:50]
    await offers.withdraw(entries)
    assert next(entry.offer.run_id for entry in offers.standing()["default"]) == "r052"
    # An offer that another orchestrator withdrew meanwhile is posted again as a new message.
    other = await opened(connect, "other")
    await other.withdraw((await other.posted())["default"])
    await offers.posted()
    await offers.post(many[60])
    assert await standing(other) == ["r060"]
