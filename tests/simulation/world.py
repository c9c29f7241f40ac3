"""One schedule: a seed, the loop, the servers, the processes on it, and what was reached."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import structlog

from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import Publisher
from tests.simulation.clocks import simulated_clocks
from tests.simulation.costs import counted_reads
from tests.simulation.loop import NODE, Node, SimulatedLoop
from tests.simulation.nats.client import SimulatedClient
from tests.simulation.nats.cluster import Cluster
from tests.simulation.network import Network
from tests.simulation.observed import observed
from tests.simulation.plan import Plan
from tests.simulation.s3.link import S3Link
from tests.simulation.s3.server import S3Model
from tests.simulation.swarm import Mix

SILENT = logging.CRITICAL
Settings = TypeVar("Settings")


@dataclass(slots=True)
class Connected:
    """What a process has of the log."""

    link: NatsConnection
    publisher: Publisher
    log: JetStreamLog


class World:
    """Everything of one schedule."""

    def __init__(self, plan: Plan, servers: int = 3, trace: bool = False) -> None:
        self.plan = plan
        self.random = plan.timing()
        self.loop = SimulatedLoop(self.random)  # type: ignore[abstract]
        self.loop.lines = [] if trace else None
        self.reached: Counter[str] = Counter()
        self.network = Network(self.loop)
        self.cluster = Cluster(self.loop, self.network, self.reach, servers)
        self.mix = Mix(plan)
        self.network.slow_share = self.mix.slow_share
        self.cluster.stall_share = self.mix.stall_share
        self.s3 = S3Link(S3Model(lambda: self.cluster.wall), plan.random("s3"), self)
        self.problems: list[str] = []
        # What is collected afterwards may still raise; that is no finding.
        self.over = False
        self.nodes: dict[str, Node] = {}
        # Faults and calls that this schedule consists of, also those that are left out.
        self.parts: dict[str, bool] = {}
        # Processes that were down or frozen: name, from, to.
        self.away: list[tuple[str, float, float]] = []
        self.on_kill: Callable[[str], None] = lambda _: None

    def reach(self, branch: str) -> None:
        """A rare branch was taken."""
        self.reached[branch] += 1

    def takes(self, part: str) -> bool:
        """Whether a fault or a call of this name is made: a shrunk schedule leaves some out."""
        return self.parts.setdefault(part, self.plan.has(part))

    def problem(self, text: str) -> None:
        if text not in self.problems and not self.over:
            self.problems.append(text)

    def start(
        self, name: str, process: Callable[[], Coroutine[Any, Any, None]], *, crash_is_problem: bool = True
    ) -> Node:
        """A process of this name, in place of one that was killed before."""
        node = self.loop.add_node(name)
        self.nodes[name] = node

        async def run() -> None:
            try:
                await process()
            except Exception as error:  # noqa: BLE001 - a process that crashes is a finding
                if crash_is_problem:
                    self.problem(f"{name} crashed: {type(error).__name__}: {error}")

        self.loop.spawn(node, run(), name)
        return node

    def kill(self, name: str) -> None:
        """kill -9 of a process; its connections break."""
        node = self.nodes[name]
        if not node.alive:
            return
        self.loop.kill(node)
        self.on_kill(name)
        for server in self.cluster.servers:
            for wire in list(server.wires):
                if wire.client.node is node:
                    wire.client.vanish()

    def restart(self, name: str, seconds: float, process: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """kill -9 of a process, and its next start after so many seconds. Nothing when it is down already."""
        if self.nodes[name].alive:
            self.kill(name)
            self.away.append((name, self.loop.now, self.loop.now + seconds))
            self.loop.after(seconds, self.start, name, process)

    @asynccontextmanager
    async def connected(self, name: str) -> AsyncIterator[Connected]:
        """A connection of the process that runs now, with publisher and log."""
        account = NatsAccount(self.cluster.url)
        make: Any = lambda: SimulatedClient(self.cluster)  # noqa: E731
        async with NatsConnection(account, name, make) as link, Publisher(link) as publisher:
            yield Connected(link, publisher, JetStreamLog(link, publisher))

    def run(self, main: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
        """Run the schedule. Raises StuckError when it is not done within so many virtual seconds."""
        with simulated_clocks(self.loop, self.plan.seed), observed(self.reach), counted_reads(self.problem):
            task = self.loop.spawn(self.loop.add_node("main"), main(), "main")
            self.loop.run_until(task, seconds)
        for crash in self.loop.crashes:
            self.problem(crash)

    def digest(self) -> str:
        return self.loop.digest()


def here() -> str:
    """The name of the process that runs now."""
    return NODE.get().name


def settings_of(make: Callable[..., Settings], **values: Any) -> Settings:
    """Settings of a process; reading the environment for each start would take a tenth of a schedule."""
    return _made(make, tuple(values.items()))


@cache
def _made(make: Callable[..., Settings], values: tuple[tuple[str, Any], ...]) -> Settings:
    return make(**dict(values))


@contextmanager
def quiet() -> Iterator[None]:
    """No logging, and no garbage collection within a schedule: it would run what a killed process left."""
    before, hook = structlog.get_config(), sys.unraisablehook
    silence()
    discard_garbage()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        sys.unraisablehook = hook
        structlog.configure(**before)


def silence() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(SILENT))
    sys.unraisablehook = lambda _: None


def discard_garbage() -> None:
    """Between schedules: coroutines of killed processes are closed, with all that they still do."""
    with contextlib.suppress(RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()
        # What is left are modules that were imported late, and caches: nothing to look at each time.
        gc.freeze()
