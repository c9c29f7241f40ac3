"""Walks over the frozen lake: the shortest way from each field to the goal, found on the map."""

from __future__ import annotations

from collections import deque
from typing import Any

# FrozenLake's actions, as steps on the map: row, column.
MOVES = {0: (0, -1), 1: (1, 0), 2: (0, 1), 3: (-1, 0)}


def make(env: Any, seed: int) -> Walker:
    """Called once, with the env of the session. Raise when the actor cannot act there: its text is shown."""
    drawn = getattr(env.unwrapped, "desc", None)
    if drawn is None:
        raise ValueError("walker needs a map, and this env has none: play FrozenLake-v1")
    return Walker([[cell.decode() for cell in row] for row in drawn.tolist()])


class Walker:
    """An actor is any callable. `began` and `came` are optional."""

    def __init__(self, fields: list[list[str]]) -> None:
        self._columns = len(fields[0])
        self._way = ways_to_goal(fields)
        self.steps = 0

    def __call__(self, observation: Any) -> int:
        """The action for an observation."""
        return self._way.get(divmod(int(observation), self._columns), 0)

    def began(self) -> None:
        """An episode begins, or somebody else has acted since."""
        self.steps = 0

    def came(self, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        """The result of its action."""
        self.steps += 1


def ways_to_goal(fields: list[list[str]]) -> dict[tuple[int, int], int]:
    """The action at each field from which the goal can be reached, breadth first from the goal."""
    places = {(row, column): cell for row, cells in enumerate(fields) for column, cell in enumerate(cells)}
    found: dict[tuple[int, int], int] = {}
    waiting = deque(place for place, cell in places.items() if cell == "G")
    while waiting:
        row, column = waiting.popleft()
        for action, (down, right) in MOVES.items():
            before = (row - down, column - right)
            if places.get(before, "H") in "SF" and before not in found:
                found[before] = action
                waiting.append(before)
    return found
