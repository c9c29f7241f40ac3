"""What goes wrong at the moment in which a trainer writes a checkpoint, chosen by the seed of a schedule.

At random such a moment is hardly ever met, and it is the one at which steps and the checkpoint after them
can be parted.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from runspine.eventlog.subjects import TELEMETRY
from runspine.storage.keys import ARTIFACTS_PREFIX
from tests.simulation.faults import LONG_SECONDS, Process, Strike
from tests.simulation.hosts import Hosts
from tests.simulation.s3.faults import StorageFaults
from tests.simulation.world import World

# Telemetry is gathered for a tenth of a second before it is on the disk.
AT_ONCE_SECONDS = (0.0, 0.12)
SOON_SECONDS = (0.3, 2.0)
DOWN_SECONDS = (0.05, 1.5)
TROUBLE_SECONDS = (0.1, 1.5)
# Within this time a checkpoint is stored, named on the log and verified.
STORED_SECONDS = (0.1, 2.5)


class CheckpointFaults:
    """Each strikes at the next checkpoint of any trainer."""

    def __init__(
        self, world: World, hosts: Hosts, processes: dict[str, Process], storage: StorageFaults
    ) -> None:
        self._world = world
        self._storage = storage
        self._hosts = hosts
        self._processes = processes
        self._workers = [name for name in processes if name.startswith("worker")]

    def kinds(self) -> list[Strike]:
        at_s3 = [self._lose_power, self._restart_s3]
        return [self._kill_at_once, self._strand, self._drop, self._hold_up, self._hold_up, *at_s3]

    def _at_next(self, strike: Callable[[str], None]) -> None:
        self._hosts.on_checkpoint = strike

    def _kill(self, worker: str, seconds: float) -> None:
        self._world.restart(worker, seconds, self._processes[worker])

    def _kill_at_once(self, chance: Random) -> str:
        """The worker is killed while it may have the checkpoint on its disk, and not yet the steps."""
        delay, pause = chance.uniform(*AT_ONCE_SECONDS), chance.uniform(*DOWN_SECONDS)
        self._at_next(lambda worker: self._world.loop.after(delay, self._kill, worker, pause))
        return "killed_at_checkpoint"

    def _strand(self, chance: Random) -> str:
        """The stream takes no telemetry, and soon the worker is away for longer than its lease."""
        delay, away = chance.uniform(*SOON_SECONDS), chance.uniform(*LONG_SECONDS)
        frozen = chance.random() < 0.5
        loop, stalled = self._world.loop, self._world.cluster.stalled

        def part(worker: str) -> None:
            node = self._world.nodes[worker]
            if frozen and node.alive and not node.frozen:
                self._world.away.append((worker, loop.now, loop.now + away))
                loop.freeze(node, away)
            elif not frozen:
                self._kill(worker, away)

        def strike(worker: str) -> None:
            stalled.add(TELEMETRY)
            loop.after(delay, part, worker)
            loop.after(delay + chance.uniform(0.1, 3.0), stalled.discard, TELEMETRY)

        self._at_next(strike)
        return "checkpoint_stranded"

    def _drop(self, chance: Random) -> str:
        """The same for all workers while S3 takes nothing: the first that is back drops its telemetry, and
        stores the checkpoint only then."""
        delay, away = chance.uniform(0.1, 1.0), chance.uniform(*LONG_SECONDS)
        loop, link = self._world.loop, self._world.s3

        def strike(worker: str) -> None:
            self._world.cluster.stalled.add(TELEMETRY)
            link.down = True
            for name in self._workers:
                loop.after(delay, self._kill, name, away if name == worker else away + 8.0)
            loop.after(delay + 1.0, self._world.cluster.stalled.discard, TELEMETRY)
            loop.after(delay + away + chance.uniform(0.5, 4.0), setattr, link, "down", False)

        self._at_next(strike)
        return "spool_dropped"

    def _hold_up(self, chance: Random) -> str:
        """S3 takes nothing for some seconds, and the worker is killed meanwhile: the checkpoint is stored
        when the next attempt has begun without it. Now and then that one is lost as well."""
        again = chance.random() < 0.6
        after = chance.uniform(0.2, 1.2)
        delay, pause = chance.uniform(*SOON_SECONDS), chance.uniform(*DOWN_SECONDS)
        seconds = delay + pause + chance.uniform(*TROUBLE_SECONDS)

        def strike(worker: str) -> None:
            self._world.s3.failing = True
            self._world.loop.after(delay, self._kill, worker, pause)
            self._world.loop.after(seconds, setattr, self._world.s3, "failing", False)
            for name in self._workers if again else ():
                self._world.loop.after(seconds + after, self._kill, name, pause)

        self._at_next(strike)
        return "checkpoint_held_up"

    def _lose_power(self, chance: Random) -> str:
        """S3 loses its power when the checkpoint is just stored, named on the log, or verified."""
        delay = chance.uniform(*STORED_SECONDS)
        self._at_next(lambda _: self._world.loop.after(delay, self._storage.lose_power, chance))
        return "power_lost_at_checkpoint"

    def _restart_s3(self, chance: Random) -> str:
        """S3 is started again at that time: a service that looks for the checkpoint may not find it yet."""
        delay = chance.uniform(*STORED_SECONDS)
        self._at_next(lambda _: self._world.loop.after(delay, self._storage.restart, chance))
        return "s3_restarted_at_checkpoint"

    def damage(self, chance: Random) -> str:
        """A checkpoint that was just stored cannot be read any more, the server replies 500 for it; and its
        worker is killed. The next attempt makes the same bytes again."""
        delay, pause = chance.uniform(0.2, 1.0), chance.uniform(*DOWN_SECONDS)

        def strike(worker: str) -> None:
            self._world.loop.after(delay, self._damage_newest)
            self._world.loop.after(delay, self._kill, worker, pause)

        self._at_next(strike)
        return "object_damaged"

    def _damage_newest(self) -> None:
        objects = self._world.s3.model.objects
        stored = [one for key, one in objects.items() if key.startswith(ARTIFACTS_PREFIX)]
        if stored:
            max(stored, key=lambda one: one.modified).unreadable = True
