"""Returns of the episodes of a training, for its curve and summary."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from runspine.trainers.builtin.curve import draw, table

COLUMNS = 60
LAST = 100


class TrainingHistory:
    """Returns by step. The attributes are part of checkpoints."""

    def __init__(self, total_steps: int) -> None:
        self.total_steps = max(total_steps, 1)
        self.episodes = 0
        self.best = -math.inf
        self.last: deque[float] = deque(maxlen=LAST)
        self._sums = [0.0] * COLUMNS
        self._counts = [0] * COLUMNS

    def add(self, step: int, total: float) -> None:
        self.episodes += 1
        self.best = max(self.best, total)
        self.last.append(total)
        column = min(step * COLUMNS // self.total_steps, COLUMNS - 1)
        self._sums[column] += total
        self._counts[column] += 1

    @property
    def mean(self) -> float:
        """Mean of the last hundred returns."""
        return sum(self.last) / len(self.last) if self.last else math.nan

    @property
    def deviation(self) -> float:
        if not self.last:
            return math.nan
        return math.sqrt(sum((total - self.mean) ** 2 for total in self.last) / len(self.last))

    def curve(self) -> str:
        reached = max((i + 1 for i, count in enumerate(self._counts) if count), default=0)
        points = [
            total / count if count else math.nan
            for total, count in zip(self._sums[:reached], self._counts[:reached], strict=True)
        ]
        end = f"{reached * self.total_steps // COLUMNS:,} steps"
        return draw(points, right=end, title="mean episodic return")

    def summary(self, step: int, seconds: float, steps_per_second: float) -> dict[str, Any]:
        return {
            "steps": step,
            "episodes": self.episodes,
            "return_mean": self.mean,
            "return_std": self.deviation,
            "return_best": self.best,
            "steps_per_second": steps_per_second,
            "wall_seconds": seconds,
        }

    def state_dict(self) -> dict[str, Any]:
        return {**vars(self), "last": list(self.last)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "last": deque(state["last"], maxlen=LAST)})


def summary_table(summary: dict[str, Any], episodes: int) -> str:
    counted = min(LAST, episodes)
    return table(
        [
            (
                "return",
                f"{summary['return_mean']:.4g} ± {summary['return_std']:.3g} (last {counted} episodes)",
            ),
            ("best return", f"{summary['return_best']:.4g}"),
            ("steps", f"{summary['steps']:,} in {summary['episodes']:,} episodes"),
            ("speed", f"{summary['steps_per_second']:,.0f} steps/s"),
            ("wall time", f"{summary['wall_seconds']:.1f} s"),
        ]
    )
