"""Schedules of the log alone: processes that decide, reserve keys, post and follow under faults."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from runspine.eventlog import ConflictError, EventLog, UnknownOutcomeError, Version
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.decider import handle
from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.streams import ensure_streams
from runspine.eventlog.subjects import FACT_STREAMS, RUNS, WORK, key_subject, stream_of
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Commit, Fact, KeyReserved
from tests.simulation.faults import Faults
from tests.simulation.loop import StuckError
from tests.simulation.nats.in_flight import InFlightFaults
from tests.simulation.plan import Plan
from tests.simulation.world import Connected, World, here

PROCESSES = ("p1", "p2", "p3")
SUBJECTS = 3
# Of each process, in long schedules.
KEYS = 4
OFFERS = 4
COMMANDS = 7
FAULT_SECONDS = 2.0
# How often the streams have one replica, and how often they had one before.
SINGLE_SHARE = 0.2
GROWN_SHARE = 0.1
# How often a frozen follower is all that happens, and how long a write may then take: its process may be
# connected to that server, which takes three seconds to notice, and another may be first each time.
FOLLOWER_SHARE = 0.08
FREEZE_AT = 0.5
# How often a leader that is deposed and comes back is all that happens, to twice as many calls.
DEPOSED_SHARE = 0.25
# Parts of the subjects whose messages are lost or late.
IN_FLIGHT = ("runs", "keys", "work", "GET")
PAUSES = (0.0, 0.01, 0.3, 0.6, 2.0)
QUICK_PAUSES = (0.0, 0.01, 0.1)
DEPOSED_AT = (0.3, 1.0)
FREEZE_SECONDS = 12.0
MAX_WRITE_SECONDS = 8.0
USUAL_SLOW, USUAL_STALLED = 0.01, 0.03
VIRTUAL_SECONDS = 240.0
NOT_DONE = (NatsUnreachableError, UnknownOutcomeError, ConflictError)


@dataclass
class Ledger:
    """What the processes got as replies, to be compared with what is stored."""

    acknowledged: list[tuple[str, int, str]] = field(default_factory=list)
    conflicts: list[tuple[str, Version, str]] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)
    offers: list[tuple[str, int]] = field(default_factory=list)
    followed: list[list[int]] = field(default_factory=list)


class WatchedLog:
    """The log, with a note of each append's outcome."""

    def __init__(self, log: EventLog, ledger: Ledger) -> None:
        self._log = log
        self._ledger = ledger
        self.read = log.read
        self.follow = log.follow
        self.extent = log.extent
        self.authors = log.authors

    async def append(
        self,
        subject: str,
        facts: Sequence[Fact],
        *,
        expected: Version,
        commit_id: str = "",
        stream_end: int | None = None,
    ) -> Version:
        commit_id = commit_id or new_ulid()
        try:
            version = await self._log.append(
                subject, facts, expected=expected, commit_id=commit_id, stream_end=stream_end
            )
        except ConflictError:
            self._ledger.conflicts.append((subject, expected, commit_id))
            raise
        self._ledger.acknowledged.append((subject, version.sequence, commit_id))
        return version


class LogWriters:
    """The workload of one schedule."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Ledger()
        self.done: set[str] = set()
        self.commands = 0
        self.share = 0.5 if world.plan.short else 1.0
        chance = world.plan.random("streams")
        self.replicas = 1 if chance.random() < SINGLE_SHARE else 3
        self.grown = self.replicas > 1 and chance.random() < GROWN_SHARE
        # The only fault is a server that does not lead, and hangs: writes must not wait for it.
        self.only_follower = self.replicas > 1 and chance.random() < FOLLOWER_SHARE
        self.only_deposed = self.replicas > 1 and not self.only_follower and chance.random() < DEPOSED_SHARE
        self.share *= 2.0 if self.only_deposed else 1.0
        self._decoded: dict[str, list[tuple[int, str, Commit]]] = {}

    async def main(self) -> None:
        if self.grown:
            async with self.world.connected("before") as connected:
                await ensure_streams(connected.link, replicas=1)
            self.world.reach("start.with_one_replica")
        for name in PROCESSES:
            self.world.start(name, self.process)
        if self.only_follower:
            # A limit in seconds needs a network as it usually is.
            self.world.network.slow_share, self.world.cluster.stall_share = USUAL_SLOW, USUAL_STALLED
            self.world.loop.after(FREEZE_AT, self._freeze_follower)
        else:
            self._plan_faults()
        while len(self.done) < len(PROCESSES) and not self.world.problems:
            await asyncio.sleep(0.5)
        if self.world.problems:
            return
        self.world.cluster.heal()
        await self._followers_catch_up()
        self.verify()

    def _plan_faults(self) -> None:
        faults = Faults(self.world, dict.fromkeys(PROCESSES, self.process), restart=PROCESSES)
        if self.replicas == 1:
            faults.aim_at_appends()
        faults.add(*InFlightFaults(self.world, IN_FLIGHT).kinds())
        if not self.only_deposed:
            faults.plan(0.05, FAULT_SECONDS * self.share)
            return
        chance = self.world.plan.random("deposed")
        at = chance.uniform(*DEPOSED_AT)
        self.world.loop.after(
            at,
            lambda: self.world.reach(f"fault.{faults.depose(self.world.cluster.streams[RUNS], chance, 0.4)}"),
        )

    def _freeze_follower(self) -> None:
        group = self.world.cluster.streams.get(RUNS)
        if group is None or group.leader is None:
            self.world.loop.after(0.1, self._freeze_follower)
            return
        followers = [server for server in group.members if server is not group.leader]
        self.world.cluster.freeze(self.world.plan.random("follower").choice(followers), FREEZE_SECONDS)
        self.world.reach("writer.follower_frozen")

    async def process(self) -> None:
        self.done.discard(here())
        async with self.world.connected("writer") as connected:
            await self._streams(connected)
            log = WatchedLog(connected.log, self.ledger)
            follower = asyncio.ensure_future(self._follow(log))
            await asyncio.gather(
                *(self._decide(log, f"d{number}") for number in range(2)),
                self._reserve(log),
                self._post(connected),
            )
            self.world.reached["publisher.resend"] += connected.publisher.resent
            self.done.add(here())
            await follower

    async def _streams(self, connected: Connected) -> None:
        """As a service that is started again when NATS does not answer."""
        while True:
            try:
                await ensure_streams(connected.link, replicas=self.replicas)
            except NatsUnreachableError:
                self.world.reach("start.again")
            else:
                return

    def _calls(self, purpose: str, count: int) -> Iterator[tuple[int, Random]]:
        """The calls of this process for one purpose, each with random numbers of its own."""
        for number in range(round(count * self.share)):
            name = f"{here()}.{purpose}.{number}"
            if self.world.takes(name):
                yield number, self.world.plan.random(name)

    async def _decide(self, log: EventLog, task: str) -> None:
        """Commands on shared subjects, as the orchestrator decides."""
        for _, chance in self._calls(task, COMMANDS):
            subject = f"runs.r{chance.randrange(SUBJECTS)}"
            self.commands += 1
            mine = Fact(at=self.commands)
            began = self.world.loop.now
            try:
                await handle(log, subject, lambda _, mine=mine: [mine], _count)  # type: ignore[misc]
            except NOT_DONE as error:
                self.world.reach(f"command.{type(error).__name__}")
            took = self.world.loop.now - began
            if self.only_follower and took > MAX_WRITE_SECONDS:
                self.world.problem(f"a write waited {took:.1f} s for a frozen follower")
            await asyncio.sleep(chance.choice(QUICK_PAUSES if self.only_deposed else PAUSES))

    async def _reserve(self, log: EventLog) -> None:
        """The same keys at every process, as a client that repeats its submit elsewhere."""
        for number, chance in self._calls("key", KEYS):
            key = key_subject(hashlib.sha256(f"key {number}".encode()).hexdigest())
            mine = [Fact(at=1, key_reserved=KeyReserved(run_id=new_ulid()))]
            try:
                reserved = await reserve(log, key, mine)
            except NOT_DONE as error:
                self.world.reach(f"key.{type(error).__name__}")
            else:
                self.ledger.keys.append((key, reserved.run_id))
            await asyncio.sleep(chance.choice((0.0, 0.002, 0.2, 0.5)))

    async def _post(self, connected: Connected) -> None:
        """One message id from every process, as offers are posted."""
        for number, chance in self._calls("offer", OFFERS):
            headers = {MESSAGE_ID: f"offer-{number}"}
            position = await connected.publisher.publish("work.default.1", b"offer", headers)
            self.ledger.offers.append((f"offer-{number}", position))
            await asyncio.sleep(chance.choice((0.0, 0.001, 0.1, 0.6)))

    async def _follow(self, log: EventLog) -> None:
        seen: list[int] = []
        self.ledger.followed.append(seen)
        async for recorded in log.follow(RUNS):
            seen.append(recorded.sequence)

    async def _followers_catch_up(self) -> None:
        """The readers that still run reach the end."""
        alive = [node for node in self.world.nodes.values() if node.alive]
        end = self.world.cluster.streams[RUNS].store.last
        until = self.world.loop.now + 30.0
        while sum((seen[-1] if seen else 0) >= end for seen in self.ledger.followed) < len(alive):
            if self.world.loop.now > until:
                self.world.problem("a reader of the log does not reach its end")
                return
            await asyncio.sleep(0.2)

    # The verdict.

    def verify(self) -> None:
        for stream in FACT_STREAMS:
            self._whole(stream)
        self._acknowledged()
        self._conflicts()
        self._keys()
        self._offers()
        for seen in self.ledger.followed:
            if seen != list(range(1, len(seen) + 1)):
                self.world.problem(f"a reader saw positions {seen}")

    def _stored(self, stream: str) -> list[tuple[int, str, Commit]]:
        """Decoded once: nothing is appended while the verdict is found."""
        if stream not in self._decoded:
            order = self.world.cluster.streams[stream].store.order
            self._decoded[stream] = [
                (one.sequence, one.subject, Commit.FromString(one.data)) for one in order
            ]
        return self._decoded[stream]

    def _whole(self, stream: str) -> None:
        """A whole chain on every subject, and each commit once."""
        verifier = ChainVerifier(stream)
        for one in self.world.cluster.streams[stream].store.order:
            verifier.feed(one.sequence, one.subject, one.data, bytes.fromhex(one.headers.get(DIGEST, "")))
        for found in verifier.finish(0):
            self.world.problem(f"chain: {found}")
        ids = [commit.id for _, _, commit in self._stored(stream)]
        if len(ids) != len(set(ids)):
            self.world.problem(f"{stream}: a commit is stored twice")

    def _acknowledged(self) -> None:
        for subject, sequence, commit_id in self.ledger.acknowledged:
            stored = self._stored(stream_of(subject))
            if (sequence, subject, commit_id) not in [(s, of, commit.id) for s, of, commit in stored]:
                self.world.problem(f"{subject}: acknowledged at {sequence} and not there")

    def _conflicts(self) -> None:
        """A conflict means that another commit stands in its place, and that nothing was stored."""
        for subject, expected, commit_id in self.ledger.conflicts:
            here = [commit for _, of, commit in self._stored(stream_of(subject)) if of == subject]
            if commit_id in [commit.id for commit in here]:
                self.world.problem(f"{subject}: a conflict was reported for a commit that is stored")
            elif expected.number + 1 not in [commit.number for commit in here]:
                self.world.problem(f"{subject}: a conflict after commit {expected.number}, the last one")

    def _keys(self) -> None:
        for key, run_id in self.ledger.keys:
            stored = [commit for _, of, commit in self._stored(RUNS) if of == key]
            runs = {fact.key_reserved.run_id for commit in stored for fact in commit.facts}
            if runs != {run_id}:
                self.world.problem(f"one key, several runs: {run_id} and {sorted(runs - {run_id})}")

    def _offers(self) -> None:
        stored: dict[str, list[int]] = {}
        for one in self.world.cluster.streams[WORK].store.order:
            stored.setdefault(one.headers[MESSAGE_ID], []).append(one.sequence)
        for message_id, position in self.ledger.offers:
            if stored.get(message_id) != [position]:
                self.world.problem(f"{message_id}: posted at {position}, stored at {stored.get(message_id)}")


async def reserve(log: EventLog, subject: str, mine: list[Fact]) -> KeyReserved:
    """The run that a key stands for, as TrainerService reserves it."""
    handled = await handle(log, subject, lambda first: [] if first else mine, _first)
    assert handled.state is not None
    return handled.state


def _count(facts: Iterable[Fact], before: int | None) -> int:
    return (before or 0) + sum(1 for _ in facts)


def _first(facts: Iterable[Fact], before: KeyReserved | None) -> KeyReserved | None:
    return before or next((fact.key_reserved for fact in facts), None)


def run_log_schedule(plan: Plan, trace: bool = False) -> World:
    """One schedule of the log."""
    world = World(plan, trace=trace)
    try:
        world.run(LogWriters(world).main, VIRTUAL_SECONDS)
    except StuckError as error:
        world.problem(f"stuck: {error}")
    world.over = True
    return world
