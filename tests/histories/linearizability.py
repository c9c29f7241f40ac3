"""Whether calls that overlapped can be put in one order that a sequential model allows. Pure.

The search of Wing and Gong with the memory of Lowe, as in Porcupine: take the calls that no other must
precede, try each on the model, go back when none fits, and never try the same remainder from the same state
twice. Calls are kept in lanes, within which they follow each other: a remainder is one number for each lane.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.histories.calls import Call

State = TypeVar("State", bound=Hashable)
Step = Callable[[State, Call, str], Iterable[State]]
# What is left of each lane, how many unanswered calls of each kind have happened, the state.
Point = tuple[tuple[int, ...], tuple[int, ...], State]


@dataclass(frozen=True, slots=True)
class Lane:
    """Calls of one session that follow each other."""

    session: str
    calls: list[Call]


class Search(Generic[State]):
    """`fresh(call)`: it must show every call answered before it began. One that is not may lag behind
    other sessions, but not behind its own, and shows nothing that began after its end."""

    def __init__(
        self, calls: Iterable[Call], name: str, step: Step[State], fresh: Callable[[Call], bool]
    ) -> None:
        ordered = sorted(calls, key=lambda call: call.start)
        self._lanes = _lanes(call for call in ordered if call.outcome != "unknown")
        self._unanswered = _kinds(call for call in ordered if call.outcome == "unknown")
        self._name = name
        self._step = step
        self._fresh = fresh
        self._ends = tuple(len(lane.calls) for lane in self._lanes)

    def fits(self, initial: State) -> bool:
        """Whether there is an order."""
        start: Point[State] = ((0,) * len(self._lanes), (0,) * len(self._unanswered), initial)
        tried, untried = {start}, [start]
        while untried:
            point = untried.pop()
            if point[0] == self._ends:
                return True
            for after in self._next(point):
                if after not in tried:
                    tried.add(after)
                    untried.append(after)
        return False

    def _next(self, point: Point[State]) -> list[Point[State]]:
        done, used, state = point
        found: list[Point[State]] = []
        # Unanswered calls first: they are tried last.
        for kind, calls in enumerate(self._unanswered):
            if used[kind] < len(calls) and self._may_be_next(calls[used[kind]], done):
                more = _plus_one(used, kind)
                afters = self._step(state, calls[used[kind]], self._name)
                found += [(done, more, after) for after in afters if after != state]
        for number in range(len(self._lanes) - 1, -1, -1):
            if done[number] == self._ends[number]:
                continue
            call = self._lanes[number].calls[done[number]]
            if not self._may_be_next(call, done, self._lanes[number]):
                continue
            shown = list(self._step(state, call, self._name))
            more = _plus_one(done, number)
            if not call.is_write and shown == [state]:
                # A read that changes nothing can always be put first.
                return [(more, used, state)]
            found += [(more, used, after) for after in shown]
        return found

    def _may_be_next(self, call: Call, done: Sequence[int], lane: Lane | None = None) -> bool:
        """No call that is left must precede it; within a lane the next one ends first."""
        everything = self._fresh(call) or call.outcome == "unknown"
        return not any(
            other.calls[at].end < call.start
            for other, at, end in zip(self._lanes, done, self._ends, strict=True)
            if other is not lane and at < end and (everything or other.session == call.session)
        )


def _lanes(calls: Iterable[Call]) -> list[Lane]:
    lanes: dict[str, list[Lane]] = {}
    for call in calls:
        own = lanes.setdefault(call.session, [])
        free = next((lane for lane in own if lane.calls[-1].end < call.start), None)
        if free is None:
            own.append(Lane(call.session, [call]))
        else:
            free.calls.append(call)
    return [lane for own in lanes.values() for lane in own]


def _kinds(calls: Iterable[Call]) -> list[list[Call]]:
    """Unanswered calls that do the same are taken in the order of their starts: one is as good as another."""
    kinds: dict[str, list[Call]] = {}
    for call in calls:
        kinds.setdefault(f"{call.operation} {sorted(call.given.items())}", []).append(call)
    return list(kinds.values())


def _plus_one(numbers: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*numbers[:at], numbers[at] + 1, *numbers[at + 1 :])
