"""The values that the agent learns: one number for each state and action. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

# After so many tries of the action that it prefers in a state, the agent is half sure of it.
HALF_SURE = 10


class Unfitting(ValueError):
    """The arrays are not a table of this size."""


class Table:
    """Rows are plain lists: for four actions numpy would be several times slower."""

    def __init__(self, states: int, actions: int) -> None:
        self.values = [[0.0] * actions for _ in range(states)]
        self.visits = [[0] * actions for _ in range(states)]

    def best(self, state: int) -> list[int]:
        """The actions of the highest value; all of them while nothing is known."""
        row = self.values[state]
        top = max(row)
        return [action for action, value in enumerate(row) if value == top]

    def learn(self, state: int, action: int, goal: float, rate: float) -> float:
        """Move a value towards its goal; how far off it was."""
        row = self.values[state]
        mistake = goal - row[action]
        row[action] += rate * mistake
        self.visits[state][action] += 1
        return mistake

    @property
    def known(self) -> int:
        """States from which something was tried."""
        return sum(1 for row in self.visits if any(row))

    def confidence(self, states: Collection[int]) -> float:
        """How well tried the preferred actions of these states are, from 0 (not at all) to 1; their mean."""
        return sum(map(self._sure, states)) / len(states) if states else 0.0

    def _sure(self, state: int) -> float:
        best = self.best(state)
        if len(best) > 1:
            return 0.0  # it does not know what it prefers
        tries = self.visits[state][best[0]]
        return tries / (tries + HALF_SURE)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"q": np.array(self.values, np.float64), "visits": np.array(self.visits, np.int64)}

    def take(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        shape = (len(self.values), len(self.values[0]))
        q, visits = arrays["q"], arrays["visits"]
        if q.shape != shape or visits.shape != shape:
            raise Unfitting(f"the table is {q.shape[0]} states by {q.shape[-1]} actions, not {shape}")
        if not np.isfinite(q).all():
            raise Unfitting("the table holds values that are not finite")
        self.values, self.visits = q.astype(float).tolist(), visits.astype(int).tolist()
