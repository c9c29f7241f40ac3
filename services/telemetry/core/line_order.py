"""Log lines of each attempt in their order, whatever the order of their batches on the stream. Pure.

A batch that was lost on its way is sent again, and is then stored after later ones. Lines are numbered
without gaps, so a batch whose first line is not the next one is held until those before it have come. A
worker has at most MAX_AHEAD batches under way: after as many others, the missing lines do not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runspine.services.telemetry.core.rows import Arrival

# As many as a worker sends before it waits for the oldest (MAX_IN_FLIGHT of its shipper).
MAX_AHEAD = 16
FIRST_LINE = 1


@dataclass(slots=True)
class _AttemptLines:
    """The lines of one attempt so far."""

    next_line: int
    held: list[Arrival] = field(default_factory=list)
    # Batches of any attempt since the last one whose turn came.
    waited: int = 0


class LineOrder:
    """Reorders batches of log lines.

    The position of what is returned is where a caller may resume: it advances only when nothing is held.
    """

    def __init__(self, after: int = 0) -> None:
        self._position = after
        self._newest = after
        self._resumed = after > 0
        self._attempts: dict[int, _AttemptLines] = {}

    def note(self, arrival: Arrival) -> None:
        """A batch that the caller has: its lines precede those that follow."""
        lines = arrival.batch.logs.lines
        if lines:
            state = self._attempts.setdefault(arrival.batch.attempt, _AttemptLines(FIRST_LINE))
            state.next_line = max(state.next_line, lines[-1].number + 1)

    def add(self, arrival: Arrival) -> list[Arrival]:
        """The batches whose turn has come, in order."""
        self._newest = max(self._newest, arrival.position)
        if not arrival.batch.logs.lines:
            return []
        state = self._state(arrival)
        state.held.append(arrival)
        state.held.sort(key=_first_line)
        ready = [each for number in sorted(self._attempts) for each in self._ready(self._attempts[number])]
        return self._placed(ready)

    def rest(self) -> list[Arrival]:
        """What is still held, at the end of the stream."""
        left = [each for number in sorted(self._attempts) for each in self._attempts[number].held]
        for state in self._attempts.values():
            state.held = []
        return self._placed(left)

    def _state(self, arrival: Arrival) -> _AttemptLines:
        attempt = arrival.batch.attempt
        if attempt not in self._attempts:
            # An attempt older than those before the position may have begun long before it.
            begun = self._resumed and attempt < max(self._attempts, default=attempt + 1)
            start = arrival.batch.logs.lines[0].number if begun else FIRST_LINE
            self._attempts[attempt] = _AttemptLines(start)
        return self._attempts[attempt]

    def _ready(self, state: _AttemptLines) -> list[Arrival]:
        ready: list[Arrival] = []
        while state.held:
            if _first_line(state.held[0]) > state.next_line and state.waited < MAX_AHEAD:
                state.waited += 1
                return ready
            ready.append(state.held.pop(0))
            state.waited = 0
            state.next_line = max(state.next_line, ready[-1].batch.logs.lines[-1].number + 1)
        return ready

    def _placed(self, ready: list[Arrival]) -> list[Arrival]:
        if not ready or any(state.held for state in self._attempts.values()):
            return [Arrival(self._position, each.batch) for each in ready]
        placed = [Arrival(self._position, each.batch) for each in ready[:-1]]
        self._position = self._newest
        return [*placed, Arrival(self._position, ready[-1].batch)]


def _first_line(arrival: Arrival) -> int:
    return int(arrival.batch.logs.lines[0].number)
