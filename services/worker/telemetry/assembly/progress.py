"""Step and step rate of a trainer. Pure."""

from __future__ import annotations

from collections import deque

from runspine.wire.v1.facts_pb2 import Counts, Progress

RATE_WINDOW_MICROS = 10_000_000
RATE_SAMPLE_MICROS = 500_000


class StepRate:
    """The highest step, and the rate over the last seconds."""

    def __init__(self, total_steps: int = 0) -> None:
        self.total_steps = total_steps
        self.step = 0
        self._moved_at = 0
        self._samples: deque[tuple[int, int]] = deque()

    def reach(self, step: int, at: int) -> None:
        """Record a step number. It may count from the start of the run or the episode: the highest counts."""
        if step > self.step:
            self.step, self._moved_at = step, at
        samples = self._samples
        if not samples or at - samples[-1][0] >= RATE_SAMPLE_MICROS:
            samples.append((at, self.step))
            while len(samples) > 2 and at - samples[1][0] > RATE_WINDOW_MICROS:
                samples.popleft()

    def progress(
        self, at: int, counts: Counts, last_return: float | None, mean_return: float | None
    ) -> Progress:
        """The progress message at this time."""
        return Progress(
            step=self.step,
            total_steps=self.total_steps,
            episodes=counts.episodes,
            last_return=last_return,
            mean_return=mean_return,
            steps_per_second=self._rate(at),
            counts=counts,
            last_step_at=self._moved_at,
        )

    def _rate(self, at: int) -> float:
        if not self._samples or at <= self._samples[0][0]:
            return 0.0
        began, first = self._samples[0]
        return (self.step - first) * 1e6 / (at - began)
