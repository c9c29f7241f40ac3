"""What Runspine asks of JetStream, as cases that run on a real nats-server and on the model alike.

Each returns what was answered, without what differs from one server to the next; both must return the same.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from runspine.eventlog.streams import declarations

NANO = 1_000_000_000
SHOWN_HEADERS = ("Status", "Description", "Nats-Sequence", "Nats-Subject", "Own")
Case = Callable[["Peer"], Awaitable[list[Any]]]


class Peer:
    """A client of either server, and short forms of its answers."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._inboxes = itertools.count()

    async def ask(self, verb: str, body: Any = None) -> dict[str, Any]:
        payload = json.dumps(body).encode() if body is not None else b""
        return json.loads((await self.client.request(f"$JS.API.{verb}", payload, timeout=5)).data)

    async def tried(self, verb: str, body: Any = None) -> Any:
        """`ok`, or the error."""
        answer = await self.ask(verb, body)
        return answer.get("error", "ok")

    async def append(self, subject: str, data: bytes = b"x", **headers: str) -> Any:
        """The acknowledgement: position, duplicate, error."""
        named = {f"Nats-{name.replace('_', '-')}": value for name, value in headers.items()}
        messages = await self.collect(subject, data, 1, {**named, "Own": "1"})
        if not messages[0].data:
            return self.shown(messages[0])
        answer = json.loads(messages[0].data)
        return {name: answer[name] for name in ("seq", "duplicate", "error") if answer.get(name)}

    async def collect(
        self, subject: str, data: bytes, count: int, headers: dict[str, str] | None = None, wait: float = 5.0
    ) -> list[Msg]:
        """Publish with an inbox for the answers; the first so many of them, or those that came in time."""
        inbox = f"_INBOX.contract.{next(self._inboxes)}"
        arrived: asyncio.Queue[Msg] = asyncio.Queue()

        async def keep(message: Msg) -> None:
            arrived.put_nowait(message)

        subscription = await self.client.subscribe(inbox, cb=keep)
        await self.client.publish(subject, data, reply=inbox, headers=headers)
        found: list[Msg] = []
        try:
            async with asyncio.timeout(wait):
                while len(found) < count:
                    found.append(await arrived.get())
        except TimeoutError:
            pass
        await subscription.unsubscribe()
        return found

    async def pull(self, consumer: str, count: int, wait: float = 5.0, **body: Any) -> list[Msg]:
        payload = json.dumps(body).encode()
        return await self.collect(f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", payload, count, wait=wait)

    @staticmethod
    def shown(message: Msg) -> tuple[Any, ...]:
        headers = {k: v for k, v in (message.headers or {}).items() if k in SHOWN_HEADERS}
        if headers.get("Status") == "503":
            headers = {"Status": "503"}
        reply = message.reply.split(".")
        position = reply[4:7] if message.reply.startswith("$JS.ACK") else []
        subject = "" if message.subject.startswith("_INBOX") else message.subject
        return (subject, message.data.decode(), headers, position)

    async def streams(self, *names: str) -> None:
        for config in declarations():
            if config["name"] in names:
                assert "error" not in await self.ask(f"STREAM.CREATE.{config['name']}", config)


async def appends(peer: Peer) -> list[Any]:
    """Positions, duplicates, expected sequences."""
    await peer.streams("RUNS")
    return [
        await peer.append("runs.a", Msg_Id="1", Expected_Last_Subject_Sequence="0"),
        await peer.append("runs.a", Msg_Id="1", Expected_Last_Subject_Sequence="0"),
        await peer.append("runs.a", Msg_Id="2", Expected_Last_Subject_Sequence="0"),
        await peer.append("runs.b", Msg_Id="3", Expected_Last_Subject_Sequence="0"),
        await peer.append("runs.a", Msg_Id="4", Expected_Last_Subject_Sequence="1"),
        await peer.append("runs.a", Msg_Id="5", Expected_Last_Subject_Sequence="9"),
        await peer.append("runs.c", Msg_Id="6", Expected_Last_Subject_Sequence="9"),
        await peer.append("keys.a"),
        await peer.append("nobody.listens"),
    ]


async def reads(peer: Peer) -> list[Any]:
    """The leader's answers and direct gets."""
    await peer.streams("RUNS")
    for number in range(4):
        await peer.append(f"runs.{'ab'[number % 2]}", f"m{number}".encode())
    found: list[Any] = []
    for body in (
        {"last_by_subj": "runs.a"},
        {"seq": 2, "next_by_subj": "runs.a"},
        {"seq": 9, "next_by_subj": "runs.a"},
        {"last_by_subj": "runs.z"},
    ):
        answer = await peer.ask("STREAM.MSG.GET.RUNS", body)
        message = answer.get("message")
        if message:
            headers = base64.b64decode(message["hdrs"]).decode()
            found.append((message["seq"], message["subject"], message["data"], headers))
        else:
            found.append(answer["error"])
    for batch in (
        {"batch": 10, "seq": 1, "next_by_subj": "runs.a"},
        {"batch": 2, "seq": 2, "next_by_subj": "runs.>"},
        {"batch": 10, "seq": 1, "next_by_subj": "runs.z"},
    ):
        messages = await peer.collect("$JS.API.DIRECT.GET.RUNS", json.dumps(batch).encode(), 3, wait=1.0)
        found.append([peer.shown(message) for message in messages])
    return found


async def stream_changes(peer: Peer) -> list[Any]:
    """Created twice, updated, deleted, and from a position on."""
    await peer.streams("BEATS", "RUNS")
    beats = next(config for config in declarations() if config["name"] == "BEATS")
    whole = {name: value for name, value in beats.items() if name != "persist_mode"}
    found = [
        await peer.tried("STREAM.CREATE.BEATS", beats),
        await peer.tried("STREAM.CREATE.BEATS", {**beats, "max_msgs_per_subject": 2}),
        await peer.tried("STREAM.CREATE.ONE", {"name": "ONE", "subjects": ["one"], "num_replicas": 3}),
        await peer.tried("STREAM.UPDATE.BEATS", whole),
        await peer.tried("STREAM.INFO.NONE"),
        await peer.tried("STREAM.DELETE.NONE"),
    ]
    for number in range(3):
        await peer.append("beats.w", str(number).encode())
    found.append(await _extent(peer, "BEATS"))
    found.append(await peer.tried("STREAM.DELETE.BEATS"))
    found.append(await peer.tried("STREAM.CREATE.BEATS", {**whole, "first_seq": 4}))
    found.append(await peer.append("beats.w"))
    found.append(await _extent(peer, "BEATS"))
    return found


async def _extent(peer: Peer, stream: str) -> list[int]:
    state = (await peer.ask(f"STREAM.INFO.{stream}"))["state"]
    return [state["messages"], state["first_seq"], state["last_seq"]]


async def tails(peer: Peer) -> list[Any]:
    """A reader's batches, bounded by count and bytes, and the announcements of what is stored."""
    await peer.streams("RUNS")
    announced: list[Any] = []

    async def keep(message: Msg) -> None:
        headers = message.headers or {}
        announced.append((message.subject, message.data, headers["Nats-Sequence"], headers["Own"]))

    await peer.client.subscribe("stored.RUNS.>", cb=keep)
    for number in range(5):
        await peer.append(f"runs.{number % 2}", f"m{number}".encode())
    found = []
    for body in (
        {"seq": 2, "next_by_subj": ">", "batch": 2, "max_bytes": 5000},
        {"seq": 4, "next_by_subj": ">", "batch": 9, "max_bytes": 5000},
        {"seq": 1, "next_by_subj": ">", "batch": 9, "max_bytes": 5},
        {"seq": 1, "next_by_subj": "runs.1", "batch": 1, "max_bytes": 5000},
        {"seq": 6, "next_by_subj": ">", "batch": 9, "max_bytes": 5000},
    ):
        messages = await peer.collect("$JS.API.DIRECT.GET.RUNS", json.dumps(body).encode(), 4, wait=1.0)
        pending = [(message.headers or {}).get("Nats-Num-Pending") for message in messages if message.data]
        found.append([[peer.shown(message) for message in messages], pending])
    return [*found, announced]


async def work(peer: Peer) -> list[Any]:
    """Offers: handed out once, given back, held, acknowledged, delivered again, withdrawn."""
    await peer.streams("WORK")
    config = {
        "durable_name": "pool-p",
        "filter_subject": "work.p.>",
        "ack_policy": "explicit",
        "ack_wait": NANO,
        "max_deliver": -1,
    }
    body = {"stream_name": "WORK", "config": config}
    found = [await peer.tried("CONSUMER.DURABLE.CREATE.WORK.pool-p", body) for _ in range(2)]
    for number in range(3):
        await peer.append("work.p.1", f"o{number}".encode(), Msg_Id=f"o{number}")
    offers = [(await peer.pull("WORK.pool-p", 1, batch=1, expires=NANO))[0] for _ in range(3)]
    found += [peer.shown(offer) for offer in offers]
    await peer.client.publish(offers[0].reply, b'-NAK {"delay": 200000000}')
    await peer.client.request(offers[1].reply, b"+ACK", timeout=5)
    await peer.client.publish(offers[2].reply, b"+WPI")
    found.append(await _extent(peer, "WORK"))
    again = (await peer.pull("WORK.pool-p", 1, batch=1, expires=2 * NANO))[0]
    found.append(peer.shown(again))
    held = (await peer.pull("WORK.pool-p", 1, batch=1, expires=3 * NANO))[0]
    found.append(held.data.decode())
    found.append(await peer.tried("STREAM.MSG.DELETE.WORK", {"seq": 3, "no_erase": True}))
    withdrawn = await peer.tried("STREAM.MSG.DELETE.WORK", {"seq": 3, "no_erase": True})
    found.append(withdrawn)
    await peer.client.publish(again.reply, b"+TERM")
    for _ in range(50):
        if (await _extent(peer, "WORK"))[0] == 0:
            break
        await asyncio.sleep(0.1)
    found.append((await _extent(peer, "WORK"))[0])
    nothing = await peer.pull("WORK.pool-p", 1, batch=1, expires=NANO // 4)
    found.append([peer.shown(message) for message in nothing])
    return found


async def purges(peer: Peer) -> list[Any]:
    """Telemetry that is stored elsewhere is removed up to a position."""
    await peer.streams("TELEMETRY")
    for number in range(4):
        await peer.append("telemetry.r.1.metrics", str(number).encode(), Msg_Id=str(number))
    answer = await peer.ask("STREAM.PURGE.TELEMETRY", {"seq": 3})
    extent = await _extent(peer, "TELEMETRY")
    again = await peer.append("telemetry.r.1.metrics", b"0", Msg_Id="0")
    return [answer["purged"], extent, again]


async def plain_messages(peer: Peer) -> list[Any]:
    """Core NATS: a subscriber with a wildcard, and nobody."""
    arrived: list[str] = []

    async def keep(message: Msg) -> None:
        arrived.append(f"{message.subject} {message.data.decode()}")

    await peer.client.subscribe("frames.r.*", cb=keep)
    await peer.client.publish("frames.r.1", b"one")
    await peer.client.publish("frames.other.1", b"two")
    await peer.client.flush()
    await asyncio.sleep(0.1)
    try:
        await peer.client.request("$JS.API.CONSUMER.MSG.NEXT.RUNS.none", b"{}", timeout=2)
    except NoRespondersError:
        arrived.append("no responders")
    return [*arrived]


CASES: list[Case] = [appends, reads, stream_changes, tails, work, purges, plain_messages]
