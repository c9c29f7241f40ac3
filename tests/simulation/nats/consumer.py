"""Consumers of a stream: pulls, heartbeats, acknowledgements, redelivery."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.nats.group import Group, Proposal
from tests.simulation.nats.stream import NANO, Stored

if TYPE_CHECKING:
    from tests.simulation.nats.cluster import Cluster, Server

UNBOUNDED = 1 << 60


@dataclass(slots=True, eq=False)
class Pull:
    """A request for messages that is not answered in full."""

    reply: str
    left: int
    bytes_left: int
    until: float
    heartbeat: float


@dataclass(slots=True)
class Unacknowledged:
    """A message in a worker's hands."""

    stored: Stored
    deliveries: int
    due: float


class Consumer:
    """One consumer, on the server that leads it."""

    def __init__(self, cluster: Cluster, group: Group, config: dict[str, Any], host: Server) -> None:
        self.cluster = cluster
        self.group = group
        self.config = config
        self.host = host
        self.name: str = config.get("durable_name") or config["name"]
        self.durable = "durable_name" in config
        self.explicit = config.get("ack_policy") == "explicit"
        self.ack_wait = config.get("ack_wait", 30 * NANO) / NANO
        self.filter: str = config.get("filter_subject", "")
        self.position: int = config.get("opt_start_seq", 1)
        self.sequence = 0
        self.pulls: list[Pull] = []
        self.open: dict[int, Unacknowledged] = {}

    @property
    def up(self) -> bool:
        return self.host.alive and not self.host.frozen

    def pull(self, reply: str, body: dict[str, Any]) -> None:
        now = self.cluster.loop.now
        pull = Pull(
            reply,
            int(body.get("batch", 1)),
            int(body.get("max_bytes", 0)) or UNBOUNDED,
            now + body.get("expires", 30 * NANO) / NANO,
            body.get("idle_heartbeat", 0) / NANO,
        )
        self.pulls.append(pull)
        self.cluster.loop.after(pull.until - now, self._expire, pull)
        if pull.heartbeat:
            self.cluster.loop.after(pull.heartbeat, self._beat, pull)
        self.pump()

    def _expire(self, pull: Pull) -> None:
        if pull in self.pulls and self.up:
            self._end(pull, "408", "Request Timeout")

    def _end(self, pull: Pull, status: str, description: str) -> None:
        self.pulls.remove(pull)
        self.cluster.reached(f"nats.pull_{status}")
        self._status(pull, status, description)

    def _status(self, pull: Pull, status: str, description: str) -> None:
        headers = {"Status": status, "Description": description}
        self.cluster.respond(self.host, pull.reply, b"", headers)

    def _beat(self, pull: Pull) -> None:
        if pull not in self.pulls or not self.host.alive:
            return
        if not self.cluster.listens(pull.reply):
            self.pulls.remove(pull)
            return
        if not self.host.frozen:
            self._status(pull, "100", "Idle Heartbeat")
        self.cluster.loop.after(pull.heartbeat, self._beat, pull)

    def pump(self) -> None:
        """Hand out what there is to those who wait."""
        while self.up and self.pulls:
            pull = self.pulls[0]
            if pull.until <= self.cluster.loop.now:
                self._end(pull, "408", "Request Timeout")
                continue
            if not self.cluster.listens(pull.reply):
                self.pulls.remove(pull)
                continue
            found = self._next()
            if found is None:
                return
            if found.size > pull.bytes_left:
                self._end(pull, "409", "Message Size Exceeds MaxBytes")
                continue
            self._deliver(pull, found)

    def _next(self) -> Stored | None:
        now, applied = self.cluster.loop.now, self.group.applied.get(self.host.name, 0)
        for sequence in sorted(self.open):
            waiting = self.open[sequence]
            if not waiting.stored.visible(applied):
                del self.open[sequence]
            elif waiting.due <= now:
                return waiting.stored
        return next(self.group.store.since(self.position, self.filter, applied), None)

    def _deliver(self, pull: Pull, stored: Stored) -> None:
        again = self.open.get(stored.sequence)
        deliveries = again.deliveries + 1 if again else 1
        if again:
            self.cluster.reached("nats.redelivery")
        else:
            self.position = stored.sequence + 1
        self.sequence += 1
        if self.explicit:
            due = self.cluster.loop.now + self.ack_wait
            self.open[stored.sequence] = Unacknowledged(stored, deliveries, due)
            self.cluster.loop.after(self.ack_wait, self.pump)
        pull.left -= 1
        pull.bytes_left -= stored.size
        stream, nanos = self.group.name, round(stored.at * 1e9)
        reply = f"$JS.ACK.{stream}.{self.name}.{deliveries}.{stored.sequence}.{self.sequence}.{nanos}.0"
        self.cluster.respond(
            self.host, pull.reply, stored.data, stored.headers, reply, subject=stored.subject
        )
        if pull.left == 0:
            if 0 < pull.bytes_left < UNBOUNDED / 2:
                self._end(pull, "409", "Batch Completed")
            else:
                self.pulls.remove(pull)

    def answer(self, sequence: int, data: bytes, reply: str) -> None:
        """What a worker sends about a message: +ACK, +WPI, -NAK with a delay, +TERM."""
        waiting = self.open.get(sequence)
        word, _, rest = data.decode().partition(" ")
        if word in ("+ACK", "+TERM"):
            self.open.pop(sequence, None)
            self._remove(sequence, reply)
        elif waiting is not None and word == "+WPI":
            waiting.due = self.cluster.loop.now + self.ack_wait
            self.cluster.loop.after(self.ack_wait, self.pump)
        elif waiting is not None and word == "-NAK":
            delay = json.loads(rest or "{}").get("delay", 0) / NANO
            waiting.due = self.cluster.loop.now + delay
            self.cluster.loop.after(delay, self.pump)

    def _remove(self, sequence: int, reply: str) -> None:
        """A queue of work forgets what was acknowledged; the acknowledgement is confirmed then."""
        leader = self.group.leader
        if leader is None:
            return

        def commit() -> Any:
            if self.group.store.config.get("retention") == "workqueue":
                self.group.store.remove(sequence)
            return lambda: self.cluster.respond(self.host, reply, b"") if reply else None

        self.group.propose(leader, Proposal(0, commit))

    def forget_grants(self) -> None:
        for waiting in self.open.values():
            waiting.due = self.cluster.loop.now
        self.pump()

    def move(self, host: Server) -> None:
        """Another server leads a durable consumer: pulls are lost, and some acknowledgements as well."""
        self.host = host
        self.pulls.clear()
        for waiting in self.open.values():
            if self.cluster.random.random() < 0.3:
                waiting.due = self.cluster.loop.now
        self.cluster.reached("nats.consumer_moved")
