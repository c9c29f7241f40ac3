"""What goes wrong between processes and S3, chosen by the seed of a schedule."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.faults import Process, Strike
from tests.simulation.world import World

MAX_REQUESTS = 25
BUSY_SECONDS = (0.5, 9.0)


class StorageFaults:
    """Faults of S3, of the way to it, and kills of processes at one of their requests."""

    def __init__(self, world: World, processes: dict[str, Process]) -> None:
        self._world = world
        self._processes = processes

    def kinds(self) -> list[Strike]:
        kill = self._kill_at_a_request
        return [
            self.restart,
            self._reboot,
            self._errors,
            self._slow,
            self._lose_replies,
            self.lose_power,
            self._stale_lists,
            self._busy_threads,
            kill,
            kill,
            kill,
        ]

    def _for_a_while(self, chance: Random, name: str, most: float) -> None:
        link = self._world.s3
        setattr(link, name, True)
        self._world.loop.after(chance.uniform(0.2, most), setattr, link, name, False)

    def restart(self, chance: Random) -> str:
        """kill -9 and a start: for some seconds it refuses, then does not find what it has."""
        self._world.s3.down = True
        self._world.loop.after(chance.uniform(0.1, 4.0), self._started, chance)
        return "s3_restarted"

    def _started(self, chance: Random) -> None:
        self._world.s3.down = False
        self._for_a_while(chance, "warming", 4.0)

    def _reboot(self, chance: Random) -> str:
        """S3 and a process start at the same time, as after a loss of power: not all can be read yet."""
        name, seconds = chance.choice(list(self._processes)), chance.uniform(0.2, 3.0)
        self._world.restart(name, seconds + chance.uniform(0.0, 0.3), self._processes[name])
        self._world.s3.down = True
        self._world.loop.after(seconds, self._started, chance)
        return "rebooted"

    def _errors(self, chance: Random) -> str:
        self._for_a_while(chance, "failing", 6.0)
        return "s3_errors"

    def _slow(self, chance: Random) -> str:
        self._for_a_while(chance, "slow", 6.0)
        return "s3_slow"

    def _lose_replies(self, chance: Random) -> str:
        self._for_a_while(chance, "losing", 6.0)
        return "s3_replies_lost"

    def lose_power(self, chance: Random) -> str:
        lost = self._world.s3.model.lose_power(chance)
        self._world.loop.note(f"power lost with {lost} objects")
        self.restart(chance)
        return "s3_power_lost"

    def _stale_lists(self, chance: Random) -> str:
        """The newest objects are not in lists yet."""
        model = self._world.s3.model
        newest = sorted(model.objects, key=lambda key: model.objects[key].modified)[-chance.randint(1, 6) :]
        model.unlisted.update(newest)
        self._world.loop.after(chance.uniform(0.5, 5.0), model.unlisted.clear)
        return "s3_lists_stale"

    def _busy_threads(self, chance: Random) -> str:
        """The threads of one process come to their work late: what it decided on is old by then."""
        node = self._world.nodes[chance.choice(list(self._processes))]
        node.busy_seconds = chance.uniform(*BUSY_SECONDS)
        self._world.loop.after(chance.uniform(1.0, 8.0), setattr, node, "busy_seconds", 0.0)
        return "threads_busy"

    def _kill_at_a_request(self, chance: Random) -> str:
        name = chance.choice(list(self._processes))
        pause = chance.uniform(0.05, 3.0)
        self._world.s3.trap = (name, chance.randrange(MAX_REQUESTS), self._killer(name, pause))
        return "process_trapped"

    def _killer(self, name: str, pause: float) -> Callable[[], None]:
        return lambda: self._world.restart(name, pause, self._processes[name])
