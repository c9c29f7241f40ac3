"""How far a trainer is and how fast. Pure."""

from __future__ import annotations

from collections import deque

from runspine.wire.v1.facts_pb2 import Counts, Progress

RATE_WINDOW = 10_000_000
RATE_SAMPLE = 500_000


class Pace:
    """Steps reached, and the rate over the last seconds."""

    def __init__(self, total_steps: int = 0) -> None:
        self.total_steps = total_steps
        self.step = 0
        self._samples: deque[tuple[int, int]] = deque()

    def reach(self, step: int, at: int) -> None:
        """A step's number counts from the run's or its episode's beginning: the furthest is meant."""
        if step > self.step:
            self.step = step
        samples = self._samples
        if not samples or at - samples[-1][0] >= RATE_SAMPLE:
            samples.append((at, self.step))
            while len(samples) > 2 and at - samples[1][0] > RATE_WINDOW:
                samples.popleft()

    def progress(
        self, at: int, counts: Counts, last_return: float | None, mean_return: float | None
    ) -> Progress:
        return Progress(
            step=self.step,
            total_steps=self.total_steps,
            episodes=counts.episodes,
            last_return=last_return,
            mean_return=mean_return,
            steps_per_second=self._rate(at),
            counts=counts,
        )

    def _rate(self, at: int) -> float:
        if not self._samples or at <= self._samples[0][0]:
            return 0.0
        began, first = self._samples[0]
        return (self.step - first) * 1e6 / (at - began)
