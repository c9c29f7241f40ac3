"""The WORK stream: what stands on it, posting and withdrawing offers, one consumer for each pool."""

from __future__ import annotations

import json

from runspine.log.link import Link, Unreachable
from runspine.log.publisher import MESSAGE_ID, Publisher
from runspine.log.subjects import WORK, work_subject
from runspine.wire.v1.run_pb2 import Offer
from services.orchestrator.core.queue import Posted

SECOND = 1_000_000_000


class Offers:
    def __init__(self, link: Link, publisher: Publisher, ack_seconds: float) -> None:
        self._link = link
        self._publisher = publisher
        self._ack_seconds = ack_seconds
        self._pools: set[str] = set()
        # The last message on the stream that we know of.
        self._last = 0

    async def ensure_pool(self, pool: str) -> None:
        """Workers of a pool share one durable consumer."""
        if pool in self._pools:
            return
        config = {
            "durable_name": f"pool-{pool}",
            "filter_subject": f"work.{pool}.>",
            "ack_policy": "explicit",
            "ack_wait": int(self._ack_seconds * SECOND),
            "max_deliver": -1,
            "max_ack_pending": 10_000,
        }
        body = json.dumps({"stream_name": WORK, "config": config}).encode()
        subject = f"$JS.API.CONSUMER.DURABLE.CREATE.{WORK}.pool-{pool}"
        answer = json.loads((await self._link.request(subject, body)).data)
        if "error" in answer:
            raise Unreachable(f"consumer of pool {pool}: {answer['error'].get('description')}")
        self._pools.add(pool)

    async def posted(self) -> dict[str, list[Posted]]:
        """Every offer that stands, by pool, in the order workers are served."""
        found: dict[str, list[Posted]] = {}
        if not self._last:
            answer = json.loads((await self._link.request(f"$JS.API.STREAM.INFO.{WORK}", b"")).data)
            self._last = answer.get("state", {}).get("last_seq", 0)
        body = json.dumps({"batch": 1000, "seq": 1, "next_by_subj": "work.>"}).encode()
        async for headers, data in self._link.replies(f"$JS.API.DIRECT.GET.{WORK}", body):
            offer = Offer.FromString(data)
            sequence = int(headers["Nats-Sequence"])
            self._last = max(self._last, sequence)
            found.setdefault(offer.pool, []).append(Posted(sequence, offer))
        return found

    async def post(self, offer: Offer) -> None:
        """Two orchestrators that look at the same stream post it once; posted anew, it is another message."""
        position = await self._publisher.publish(
            work_subject(offer.pool, offer.priority),
            offer.SerializeToString(),
            {MESSAGE_ID: f"{offer.run_id}:{offer.attempt}:{self._last}"},
        )
        self._last = max(self._last, position)

    async def withdraw(self, sequence: int) -> None:
        """Gone already is fine: a worker was quicker."""
        body = json.dumps({"seq": sequence, "no_erase": True}).encode()
        await self._link.request(f"$JS.API.STREAM.MSG.DELETE.{WORK}", body)
