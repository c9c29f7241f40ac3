"""What to start and what to stop. Pure, and the same question answered again gives nothing new to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runspine.wire.v1.run_pb2 import Run
from services.launcher.core.seats import Seat, State

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0

Key = tuple[str, int]


@dataclass(slots=True)
class Memory:
    """What the loop remembers of its own doing; losing it costs time, never correctness."""

    # How often a seat was asked for, and when last.
    asked: dict[Key, tuple[int, float]] = field(default_factory=dict)
    # Since when nobody needs a seat.
    idle: dict[str, float] = field(default_factory=dict)

    def note(self, key: Key, now: float) -> None:
        self.asked[key] = (self.asked.get(key, (0, 0.0))[0] + 1, now)

    def may_ask(self, key: Key, now: float) -> bool:
        """Whether enough time has passed since the last try."""
        count, last = self.asked.get(key, (0, 0.0))
        return count == 0 or now - last >= pause_after(count)

    def forget(self, needed: set[Key], seats: set[str]) -> None:
        self.asked = {key: told for key, told in self.asked.items() if key in needed}
        self.idle = {name: since for name, since in self.idle.items() if name in seats}


@dataclass(frozen=True, slots=True)
class Plan:
    launch: list[Run]
    cancel: list[Seat]


def pause_after(tries: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(tries - 1, 10), LONGEST_PAUSE)


def plan(
    waiting: list[Run],
    open_runs: Mapping[str, Run],
    seats: Iterable[Seat],
    memory: Memory,
    *,
    limit: int,
    grace: float,
    now: float,
) -> Plan:
    live = [seat for seat in seats if seat.state is not State.OVER]
    taken = {(seat.run_id, seat.attempt) for seat in live}
    cancel = [seat for seat in live if _is_due(seat, open_runs, memory, grace, now)]
    room = limit - len(live)
    launch: list[Run] = []
    for run in waiting:
        key = (run.id, run.attempt)
        if len(launch) < room and key not in taken and memory.may_ask(key, now):
            launch.append(run)
    memory.forget({(run.id, run.attempt) for run in waiting}, {seat.name for seat in live})
    return Plan(launch, cancel)


def _is_due(seat: Seat, open_runs: Mapping[str, Run], memory: Memory, grace: float, now: float) -> bool:
    """Whether a seat is to be taken away. One that has begun gets time to upload what it holds."""
    run = open_runs.get(seat.run_id)
    if run is not None and run.attempt <= seat.attempt:
        memory.idle.pop(seat.name, None)
        return False
    since = memory.idle.setdefault(seat.name, now)
    return seat.state is State.WAITING or now - since >= grace
