"""What goes wrong in a schedule, chosen by its seed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from runspine.eventlog.server_errors import TABLE, Verdict
from runspine.eventlog.subjects import BEATS
from tests.simulation.nats.cluster import Server
from tests.simulation.nats.group import Group
from tests.simulation.world import World

Process = Callable[[], Coroutine[Any, Any, None]]
# A fault of one kind: it strikes with random numbers of its own, and returns its name.
Strike = Callable[[Random], str]
MOST_FAULTS = 6
MOST_SHORT_FAULTS = 3
# Errors at a time that requests are refused with.
REFUSED_WITH = 6
# After the last fault everything works again, in short schedules and in long ones.
HEALED_SECONDS = (3.0, 10.0)
LONG_SECONDS = (16.0, 25.0)


class Faults:
    """Faults of servers, links and processes, between two instants."""

    def __init__(
        self,
        world: World,
        processes: dict[str, Process],
        restart: Sequence[str] = (),
        long_share: float = 0.0,
    ) -> None:
        self._long_share = long_share
        self._world = world
        self._processes = processes
        self._restart = list(restart)
        self._kinds: list[Strike] = [
            self._kill_server,
            self._freeze_server,
            self._isolate_server,
            self._depose,
            self._depose,
            self._step_down,
            self._lag,
            self._fill,
            self._drop_connection,
            self._strike_in_flight,
            self._strike_in_flight,
            self._freeze_process,
            self._kill_process,
            self._refuse,
        ]

    def add(self, *kinds: Strike) -> None:
        """Faults that only some kinds of schedules have; one that is given twice is twice as frequent."""
        self._kinds += kinds

    def aim_at_appends(self) -> None:
        """Most faults are replies that are lost: with one replica nothing else makes an append doubtful."""
        self._kinds += [self._strike_in_flight] * len(self._kinds)

    def plan(self, start: float, end: float, most: int = MOST_FAULTS) -> None:
        """Put up to so many faults on the clock; all are over some seconds after the end."""
        plan = self._world.plan
        most = min(most, MOST_SHORT_FAULTS) if plan.short else most
        kinds = self._world.mix.faults(self._kinds)
        for number in range(plan.random("faults").randint(1, most)):
            chance = plan.random(f"fault {number}")
            at, kind = chance.uniform(start, end), chance.choice(kinds)
            if self._world.takes(f"f{number}"):
                self._world.loop.after(at, self._strike, kind, chance)
        pause = HEALED_SECONDS[0] if plan.short else HEALED_SECONDS[1]
        self._world.loop.after(end + pause, self._world.cluster.heal)

    def _strike(self, kind: Strike, chance: Random) -> None:
        self._world.reach(f"fault.{kind(chance)}")

    def _server(self, chance: Random) -> Server:
        return chance.choice(self._world.cluster.servers)

    def _kill_server(self, chance: Random) -> str:
        self._world.cluster.kill(self._server(chance), chance.uniform(0.0, 4.0))
        return "server_killed"

    def _freeze_server(self, chance: Random) -> str:
        self._world.cluster.freeze(self._server(chance), chance.uniform(0.2, 12.0))
        return "server_frozen"

    def _isolate_server(self, chance: Random) -> str:
        clients = [name for name in self._processes if chance.random() < 0.5]
        one_way = chance.random() < 0.3
        self._world.cluster.isolate(self._server(chance), clients=clients, one_way=one_way)
        self._world.loop.after(chance.uniform(0.5, 12.0), self._world.cluster.heal)
        return "server_cut_off_one_way" if one_way else "server_cut_off"

    def _depose(self, chance: Random) -> str:
        """A leader hangs, or is cut off, until there is another, and comes back soon after."""
        group = max(
            self._world.cluster.streams.values(),
            key=lambda group: group.store.last * chance.random(),
            default=self._world.cluster.meta,
        )
        return self.depose(group, chance)

    def depose(self, group: Group, chance: Random, most: float = 2.5) -> str:
        leader = group.leader
        if leader is None or group.alone:
            return "nobody_to_depose"
        if chance.random() < 0.5:
            self._world.cluster.freeze(leader, 30.0)
        else:
            self._world.cluster.isolate(leader, clients=[])
        self._return_soon(group, leader, chance.uniform(0.0, most))
        return "leader_deposed"

    def _return_soon(self, group: Group, leader: Server, delay: float) -> None:
        if group.leader is leader and leader.alive:
            self._world.loop.after(0.1, self._return_soon, group, leader, delay)
            return
        self._world.loop.after(delay, self._world.cluster.heal)
        self._world.loop.after(delay, self._world.cluster.thaw, leader)

    def _step_down(self, chance: Random) -> str:
        groups = [self._world.cluster.meta, *self._world.cluster.streams.values()]
        chance.choice(groups).step_down()
        return "leader_stepped_down"

    def _lag(self, chance: Random) -> str:
        self._server(chance).behind = True
        return "replica_behind"

    def _fill(self, chance: Random) -> str:
        server = self._server(chance)
        server.full = True
        self._world.loop.after(chance.uniform(0.1, 3.0), setattr, server, "full", False)
        return "disk_full"

    def _refuse(self, chance: Random) -> str:
        """The cluster answers some requests with errors that call for a retry, stored or not."""
        rows = [row for row in TABLE.values() if row.verdict is Verdict.RETRY]
        self._world.cluster.refusing = chance.sample(rows, REFUSED_WITH)
        self._world.loop.after(chance.uniform(0.2, 3.0), setattr, self._world.cluster, "refusing", [])
        return "requests_refused"

    def beats_stall(self, chance: Random) -> str:
        """The stream of heartbeats stores nothing for a while, the others do."""
        self.stall_beats(chance.uniform(2.0, 20.0))
        return "beats_stalled"

    def stall_beats(self, seconds: float) -> None:
        self._world.cluster.stalled.add(BEATS)
        self._world.loop.after(seconds, self._world.cluster.stalled.discard, BEATS)

    def clock_jumps(self, chance: Random) -> str:
        """The wall clock of a process is seconds to a day off, and right again after a while."""
        node = self._world.nodes[chance.choice(list(self._processes))]
        node.skew = chance.choice((-1.0, 1.0)) * chance.choice((3.0, 90.0, 86_400.0))
        self._world.loop.after(chance.uniform(1.0, 10.0), setattr, node, "skew", 0.0)
        return "clock_jumped"

    def clock_ahead(self, chance: Random, names: Sequence[str]) -> str:
        """The wall clock of one of these is a day ahead, for so long that an attempt ends meanwhile."""
        node = self._world.nodes[chance.choice(names)]
        node.skew = 86_400.0
        self._world.loop.after(chance.uniform(3.0, 10.0), setattr, node, "skew", 0.0)
        return "clock_ahead"

    def grant_twice(self, chance: Random) -> str:
        """Offers that were handed out are handed out again, as after the kill of a server, while nobody who
        could record a claim runs."""
        for name in self._processes:
            node = self._world.nodes[name]
            if name.startswith("orchestrator") and node.alive and not node.frozen:
                self._world.loop.freeze(node, self._away(chance, name, 1.0, 4.0))
        self._world.loop.after(chance.uniform(0.1, 1.0), self._world.cluster.grant_again)
        return "offers_granted_twice"

    def lag(self, chance: Random) -> str:
        """Readers at any follower are late, while writers at the leader are not."""
        for server in self._world.cluster.servers:
            server.behind = chance.random() < 0.8
        return "replicas_behind"

    def _drop_connection(self, chance: Random) -> str:
        wires = [wire for server in self._world.cluster.servers for wire in server.wires]
        if wires:
            self._world.cluster.drop(chance.choice(wires))
        return "connection_dropped"

    def _strike_in_flight(self, chance: Random) -> str:
        """A leader dies, or all connections break, within milliseconds of the next append: at random such a
        moment would hardly ever be met."""
        cluster, delay = self._world.cluster, chance.uniform(0.0, 0.004)

        def strike(leader: Server) -> None:
            if chance.random() < 0.5:
                self._world.loop.after(delay, cluster.kill, leader, chance.uniform(0.0, 4.0))
            else:
                for wire in [wire for server in cluster.servers for wire in server.wires]:
                    self._world.loop.after(delay, cluster.drop, wire)

        cluster.on_append = strike
        return "struck_in_flight"

    def _freeze_process(self, chance: Random) -> str:
        node = self._world.nodes[chance.choice(list(self._processes))]
        if node.alive and not node.frozen:
            self._world.loop.freeze(node, self._away(chance, node.name, 0.1, 6.0))
        return "process_frozen"

    def _away(self, chance: Random, name: str, least: float, most: float) -> float:
        """For how long a process is away: now and then beyond every lease, where that is wanted."""
        long = chance.random() < self._long_share
        seconds = chance.uniform(*LONG_SECONDS) if long else chance.uniform(least, most)
        now = self._world.loop.now
        self._world.away.append((name, now, now + seconds))
        return seconds

    def _kill_process(self, chance: Random) -> str:
        if not self._restart:
            return self._freeze_process(chance)
        name = chance.choice(self._restart)
        if not self._world.nodes[name].alive:
            return "process_down_already"
        self._world.kill(name)
        pause = self._away(chance, name, 0.05, 3.0)
        self._world.loop.after(pause, self._world.start, name, self._processes[name])
        return "process_killed"
