"""The requests that Runspine sends to JetStream, answered as nats-server 2.15 does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runspine.eventlog.server_errors import TABLE
from tests.simulation.nats.consumer import UNBOUNDED, Consumer
from tests.simulation.nats.group import Group, Proposal
from tests.simulation.nats.stream import Stored, StreamStore

if TYPE_CHECKING:
    from tests.simulation.nats.cluster import Cluster, Request, Server

ERRORS = {
    10008: (503, "JetStream system temporarily unavailable"),
    10009: (409, "JetStream cluster can not handle request"),
    10023: (503, "insufficient resources"),
    10037: (404, "no message found"),
    10043: (400, "sequence {} not found"),
    10047: (500, "insufficient storage resources available"),
    10052: (500, "stream configuration update can not change persist mode"),
    10058: (400, "stream name already in use with a different configuration"),
    10059: (404, "stream not found"),
    10071: (400, "wrong last sequence: {}"),
    10074: (500, "replicas > 1 not supported in non-clustered mode"),
    10077: (503, "maximum bytes exceeded"),
    10158: (409, "duplicate message id is in process"),
    10164: (400, "wrong last sequence"),
}
FULL = (10023, 10047, 10077)
EXPECTED = "Nats-Expected-Last-Subject-Sequence"


# The calls of `server_errors.TABLE` by the verbs of the API.
CALLS = {
    "STREAM.INFO": "stream",
    "STREAM.CREATE": "stream",
    "STREAM.UPDATE": "stream",
    "STREAM.PURGE": "stream",
    "STREAM.MSG": "read",
    "CONSUMER.CREATE": "consumer",
    "CONSUMER.DURABLE": "consumer",
}
REFUSED_SHARE = 0.5


def failure(code: int, detail: object = "") -> dict[str, Any]:
    status, description = ERRORS.get(code) or (503, TABLE[code].meaning)
    return {"error": {"code": status, "err_code": code, "description": description.format(detail)}}


class Api:
    """Appends and API requests, at the server that a client is connected to."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._verbs: dict[str, Callable[[Server, Request, str], None]] = {
            "STREAM.INFO": self._info,
            "STREAM.CREATE": self._create,
            "STREAM.UPDATE": self._update,
            "STREAM.DELETE": self._delete,
            "STREAM.PURGE": self._purge,
            "STREAM.MSG": self._message,
            "DIRECT.GET": self._direct,
            "CONSUMER.CREATE": self._consumer,
            "CONSUMER.DURABLE": self._consumer,
            "CONSUMER.MSG": self._pull,
        }

    def call(self, server: Server, request: Request) -> None:
        tokens = request.subject.split(".")
        if tokens[1] == "ACK":
            self._acknowledge(server, request, tokens)
            return
        if tokens[2] == "INFO":
            held = sum(group.store.bytes_held() for group in self.cluster.streams.values())
            limits = {"max_memory": -1, "max_storage": -1}
            self.reply(server, request, {"memory": 0, "storage": held, "limits": limits})
            return
        refused = self._refused(CALLS.get(".".join(tokens[2:4]), ""))
        if refused is not None:
            self.reply(server, request, refused)
            return
        verb = self._verbs.get(".".join(tokens[2:4]))
        if verb is None:
            self.cluster.no_responders(server, request)
        else:
            verb(server, request, ".".join(tokens[4:]))

    def _refused(self, call: str) -> dict[str, Any] | None:
        """The error that a call meets while the cluster is in trouble."""
        rows = [row for row in self.cluster.refusing if call in row.calls.split()]
        if not rows or self.cluster.random.random() > REFUSED_SHARE:
            return None
        return failure(self.cluster.random.choice(rows).code)

    def reply(self, server: Server, request: Request, answer: dict[str, Any]) -> None:
        if error := answer.get("error"):
            self.cluster.reached(f"nats.{error['err_code']}")
        if request.reply:
            self.cluster.respond(server, request.reply, json.dumps(answer).encode())

    # Appends.

    def publish(self, server: Server, group: Group, request: Request) -> None:
        """To everyone who takes itself for the leader."""
        leaders = [member for member in group.members if group.answers_as_leader(member)]
        if not leaders:
            self.cluster.no_responders(server, request)
        for leader in leaders:
            self.cluster.forward(server, leader, lambda leader=leader: self._append(leader, group, request))  # type: ignore[misc]

    def _append(self, leader: Server, group: Group, request: Request) -> None:
        if not group.answers_as_leader(leader) or group.name in self.cluster.stalled:
            return
        trouble = self._refused("append")
        if trouble is not None:
            self.reply(leader, request, {"stream": group.name, "seq": 0, **trouble})
            if self.cluster.random.random() < REFUSED_SHARE:
                return
            # Stored all the same: the error does not exclude it.
            request = replace(request, reply="")
        refused = self._refusal(leader, group, request)
        if refused is not None:
            self.reply(leader, request, {"stream": group.name, "seq": 0, **refused})
            return

        def commit() -> Callable[[], None]:
            stored = group.store.add(request.subject, request.headers, request.data, self.cluster.wall)
            answer = {"stream": group.name, "seq": stored.sequence}

            def report() -> None:
                self.reply(leader, request, answer)
                self._announce(leader, group, stored)

            return report

        strike, self.cluster.on_append = self.cluster.on_append, None
        if strike is not None:
            strike(leader)
        message_id = request.headers.get("Nats-Msg-Id", "")
        group.propose(leader, Proposal(0, commit, message_id, request.subject))

    def _announce(self, leader: Server, group: Group, stored: Stored) -> None:
        """`republish`: a leader announces what it commits, once."""
        if (rule := group.store.config.get("republish")) and rule["headers_only"]:
            subject = rule["dest"].removesuffix(">") + stored.subject
            self.cluster.respond(leader, subject, b"", stored.described(group.name))

    def _refusal(self, leader: Server, group: Group, request: Request) -> dict[str, Any] | None:
        """Why it is not stored, or the position that its message id has already."""
        checks = [self._known, self._unexpected]
        # A single server looks at the expected sequence first, a leader of replicas at the message id.
        for check in reversed(checks) if group.alone else checks:
            found = check(leader, group, request)
            if found is not None:
                return found
        store = group.store
        if leader.full:
            return failure(self.cluster.random.choice(FULL))
        most = store.config.get("max_bytes", -1)
        if most > 0 and store.config.get("discard") == "new" and store.bytes_held() > most:
            return failure(10077)
        return None

    def _known(self, leader: Server, group: Group, request: Request) -> dict[str, Any] | None:
        message_id = request.headers.get("Nats-Msg-Id")
        if not message_id:
            return None
        known = group.store.known_id(message_id, group.applied[leader.name], self.cluster.wall)
        if known is not None:
            self.cluster.reached("nats.duplicate")
            return {"seq": known.sequence, "duplicate": True}
        under_way = leader is group.leader and any(one.message_id == message_id for one in group.pending)
        return failure(10158) if under_way else None

    def _unexpected(self, leader: Server, group: Group, request: Request) -> dict[str, Any] | None:
        expected = request.headers.get(EXPECTED)
        if expected is None:
            return None
        if leader is group.leader and any(one.subject == request.subject for one in group.pending):
            return failure(10164)
        newest = group.store.newest(request.subject, group.applied[leader.name])
        found = newest.sequence if newest else 0
        return failure(10071, found) if found != int(expected) else None

    # Streams.

    def _meta(self, server: Server, request: Request, work: Callable[[Server], None]) -> None:
        """Have the leader of the meta group do it."""
        leader = self.cluster.meta.leader
        if leader is None or not leader.alive:
            self._nobody(server, request)
            return
        self.cluster.forward(server, leader, lambda: work(leader))

    def _nobody(self, server: Server, request: Request) -> None:
        """Nobody leads: an error, or silence."""
        if self.cluster.random.random() < 0.5:
            self.reply(server, request, failure(self.cluster.random.choice((10008, 10009))))

    def _led(
        self, server: Server, request: Request, stream: str, work: Callable[[Server, Group], None]
    ) -> None:
        """Have the leader of a stream do it; all who take themselves for the leader do."""
        group = self.cluster.streams.get(stream)
        if group is None:
            self._meta(server, request, lambda leader: self.reply(leader, request, failure(10059)))
            return
        leaders = [member for member in group.members if group.answers_as_leader(member)]
        if not leaders:
            self._nobody(server, request)
        for leader in leaders:
            self.cluster.forward(
                server,
                leader,
                lambda at=leader: work(at, group) if group.answers_as_leader(at) else None,  # type: ignore[misc]
            )

    def _info(self, server: Server, request: Request, stream: str) -> None:
        def answer(leader: Server, group: Group) -> None:
            self.reply(leader, request, self._described(group, leader))

        self._led(server, request, stream, answer)

    def _described(self, group: Group, leader: Server) -> dict[str, Any]:
        return {
            "config": group.store.config,
            "state": group.store.state(group.applied[leader.name]),
            "cluster": {"leader": leader.name},
        }

    def _create(self, server: Server, request: Request, stream: str) -> None:
        self._meta(server, request, lambda leader: self.reply(leader, request, self._make(request, stream)))

    def _make(self, request: Request, stream: str) -> dict[str, Any]:
        config = json.loads(request.data)
        existing = self.cluster.streams.get(stream)
        if existing is not None:
            shown = self._described(existing, existing.members[0])
            return shown if existing.store.config == config else failure(10058)
        replicas = config.get("num_replicas", 1)
        if replicas > len(self.cluster.servers):
            return failure(10074)
        members = self.cluster.random.sample(self.cluster.servers, replicas)
        store = StreamStore(config, last=int(config.get("first_seq", 1)) - 1)
        group = self.cluster.streams[stream] = Group(self.cluster, stream, members, store)
        group.check()
        return self._described(group, members[0])

    def _update(self, server: Server, request: Request, stream: str) -> None:
        def work(leader: Server) -> None:
            group = self.cluster.streams.get(stream)
            if group is None:
                self.reply(leader, request, failure(10059))
                return
            config = json.loads(request.data)
            if config.get("persist_mode", "default") != group.store.config.get("persist_mode", "default"):
                self.reply(leader, request, failure(10052))
                return
            group.store.config = config
            for other in self.cluster.servers:
                if other not in group.members and len(group.members) < config.get("num_replicas", 1):
                    group.members.append(other)
                    group.applied[other.name] = 0
            group.check()
            self.reply(leader, request, self._described(group, group.members[0]))

        self._meta(server, request, work)

    def _delete(self, server: Server, request: Request, stream: str) -> None:
        def work(leader: Server) -> None:
            found = self.cluster.streams.pop(stream, None)
            for key in [key for key in self.cluster.consumers if key[0] == stream]:
                del self.cluster.consumers[key]
            self.reply(leader, request, {"success": True} if found else failure(10059))

        self._meta(server, request, work)

    def _purge(self, server: Server, request: Request, stream: str) -> None:
        def work(leader: Server, group: Group) -> None:
            before = json.loads(request.data or b"{}").get("seq", group.store.last + 1)

            def commit() -> Callable[[], None]:
                answer = {"success": True, "purged": group.store.purge(before)}
                return lambda: self.reply(leader, request, answer)

            group.propose(leader, Proposal(0, commit))

        self._led(server, request, stream, work)

    # Messages.

    def _message(self, server: Server, request: Request, rest: str) -> None:
        what, _, stream = rest.partition(".")
        body = json.loads(request.data)

        def get(leader: Server, group: Group) -> None:
            store, applied = group.store, group.applied[leader.name]
            if leader is not group.leader:
                self.cluster.reached("nats.read_from_deposed_leader")
                of = body.get("last_by_subj") or body.get("next_by_subj", "")
                self.cluster.old_answers.append((self.cluster.loop.now, of))
            if "last_by_subj" in body:
                found = store.newest(body["last_by_subj"], applied)
            else:
                found = next(store.since(body["seq"], body.get("next_by_subj", ""), applied), None)
            answer = failure(10037) if found is None else {"message": found.as_json()}
            self.reply(leader, request, answer)

        def delete(leader: Server, group: Group) -> None:
            def commit() -> Callable[[], None]:
                removed = group.store.remove(body["seq"])
                answer = {"success": True} if removed else failure(10043, body["seq"])
                return lambda: self.reply(leader, request, answer)

            group.propose(leader, Proposal(0, commit))

        self._led(server, request, stream, get if what == "GET" else delete)

    def _direct(self, server: Server, request: Request, stream: str) -> None:
        """Any replica answers, also one that lags or does not answer at all."""
        group = self.cluster.streams.get(stream)
        able = [member for member in group.members if member.alive] if group else []
        if group is None or not able:
            self.cluster.no_responders(server, request)
            return
        near = server in able and self.cluster.random.random() < 0.5
        chosen = server if near else self.cluster.random.choice(able)
        self.cluster.forward(server, chosen, lambda: self._batch(chosen, group, request))

    def _batch(self, replica: Server, group: Group, request: Request) -> None:
        body = json.loads(request.data)
        applied = group.applied[replica.name]
        if applied < group.store.committed:
            self.cluster.reached("nats.direct_get_behind")
        left = int(body.get("max_bytes", 0)) or UNBOUNDED
        found = list(group.store.since(body.get("seq", 1), body["next_by_subj"], applied))
        for count, stored in enumerate(found[: body.get("batch", 1)], 1):
            pending = {"Nats-Num-Pending": str(len(found) - count)}
            headers = {**stored.described(group.name), **pending}
            self.cluster.respond(replica, request.reply, stored.data, headers)
            left -= stored.size
            if left <= 0:
                break
        end = {"Status": "204", "Description": "EOB"}
        nothing = {"Status": "404", "Description": "Message Not Found"}
        self.cluster.respond(replica, request.reply, b"", end if found else nothing)

    # Consumers.

    def _consumer(self, server: Server, request: Request, rest: str) -> None:
        tokens = rest.split(".")
        stream = tokens[1] if tokens[0] == "CREATE" else tokens[0]

        def work(leader: Server) -> None:
            group = self.cluster.streams.get(stream)
            if group is None:
                self.reply(leader, request, failure(10059))
                return
            config = json.loads(request.data)["config"]
            name = config.get("durable_name") or config["name"]
            consumer = self.cluster.consumers.get((stream, name))
            if consumer is None:
                able = [member for member in group.members if member.alive]
                if not able:
                    self.reply(leader, request, failure(10008))
                    return
                consumer = Consumer(self.cluster, group, config, self.cluster.random.choice(able))
                self.cluster.consumers[stream, name] = consumer
            answer = {"stream_name": stream, "name": name, "config": consumer.config}
            host = consumer.host
            self.cluster.forward(leader, host, lambda: self.reply(host, request, answer))

        self._meta(server, request, work)

    def _pull(self, server: Server, request: Request, rest: str) -> None:
        _, stream, name = rest.split(".", 2)
        consumer = self.cluster.consumers.get((stream, name))
        if consumer is None or not consumer.host.alive:
            self.cluster.no_responders(server, request)
            return
        body = json.loads(request.data or b"{}")
        self.cluster.forward(server, consumer.host, lambda: consumer.pull(request.reply, body))

    def _acknowledge(self, server: Server, request: Request, tokens: list[str]) -> None:
        consumer = self.cluster.consumers.get((tokens[2], tokens[3]))
        if consumer is None or not consumer.host.alive:
            self.cluster.no_responders(server, request)
            return
        sequence = int(tokens[5])
        host = consumer.host
        self.cluster.forward(server, host, lambda: consumer.answer(sequence, request.data, request.reply))
