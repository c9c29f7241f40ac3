"""Table of action values that the agent learns. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

# Tries of the preferred action of a state after which its confidence is one half.
HALF_CONFIDENCE_TRIES = 10


class TableMismatchError(ValueError):
    """The arrays are not a table of this size."""


class ValueTable:
    """Action values and visits. Rows are lists: for four actions numpy is several times slower."""

    def __init__(self, states: int, actions: int) -> None:
        self.values = [[0.0] * actions for _ in range(states)]
        self.visits = [[0] * actions for _ in range(states)]

    def best(self, state: int) -> list[int]:
        """Actions with the highest value; all of them while nothing is known."""
        row = self.values[state]
        top = max(row)
        return [action for action, value in enumerate(row) if value == top]

    def learn(self, state: int, action: int, goal: float, rate: float) -> float:
        """Move a value towards its goal; return the error."""
        row = self.values[state]
        mistake = goal - row[action]
        row[action] += rate * mistake
        self.visits[state][action] += 1
        return mistake

    @property
    def known(self) -> int:
        """Number of states in which an action was tried."""
        return sum(1 for row in self.visits if any(row))

    def confidence(self, states: Collection[int]) -> float:
        """Mean confidence in the preferred actions of these states, from 0 to 1, by their number of tries."""
        return sum(map(self._confidence_in, states)) / len(states) if states else 0.0

    def _confidence_in(self, state: int) -> float:
        best = self.best(state)
        if len(best) > 1:
            return 0.0  # it does not know what it prefers
        tries = self.visits[state][best[0]]
        return tries / (tries + HALF_CONFIDENCE_TRIES)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"q": np.array(self.values, np.float64), "visits": np.array(self.visits, np.int64)}

    def take(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        shape = (len(self.values), len(self.values[0]))
        q, visits = arrays["q"], arrays["visits"]
        if q.shape != shape or visits.shape != shape:
            raise TableMismatchError(
                f"the table is {q.shape[0]} states by {q.shape[-1]} actions, not {shape}"
            )
        if not np.isfinite(q).all():
            raise TableMismatchError("the table holds values that are not finite")
        self.values, self.visits = q.astype(float).tolist(), visits.astype(int).tolist()
