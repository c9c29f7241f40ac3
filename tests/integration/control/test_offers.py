"""The WORK stream as the orchestrator keeps it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from runspine.services.orchestrator.edges.offers import OfferStream
from runspine.wire.v1.run_pb2 import Offer

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
