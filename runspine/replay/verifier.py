"""Compares a replay with its record, step by step, up to the first divergence. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from runspine.replay.divergence import Divergence
from runspine.replay.record import EpisodeRecord
from runspine.sdk.encoding import plain
from runspine.sdk.lines import TERMINATED, TRUNCATED


class ReplayVerifier:
    """Compares results of an env with a record. `divergence` is the first difference; it stays."""

    def __init__(self, record: EpisodeRecord) -> None:
        self._record = record
        self._rewards = record.rewards.tolist()
        self.divergence: Divergence | None = None
        self.steps = 0

    def began(self, observation: Any) -> Divergence | None:
        first = self._record.first
        if not first.matches(0, observation):
            return self._diverged(None, "observation", first.shown(0), first.shown_like(observation))
        return None

    def stepped(self, number: int, result: Any) -> Divergence | None:
        """Compare the result of `step` for the action of that number."""
        if self.divergence is not None:
            return self.divergence
        observation, reward, terminated, truncated, _ = result
        record = self._record
        expected, got = self._rewards[number], as_float(reward)
        if expected != got and not (expected != expected and got != got):
            return self._diverged(number, "reward", expected, got)
        flags = record.flags[number]
        if bool(flags & TERMINATED) != bool(terminated):
            return self._diverged(number, "terminated", bool(flags & TERMINATED), bool(terminated))
        if bool(flags & TRUNCATED) != bool(truncated):
            return self._diverged(number, "truncated", bool(flags & TRUNCATED), bool(truncated))
        seen, row = record.seen(number)
        if not seen.matches(row, observation):
            return self._diverged(number, "observation", seen.shown(row), seen.shown_like(observation))
        self.steps = number + 1
        return None

    def raised(self, number: int | None, error: Exception) -> Divergence | None:
        """Record that the env raised where it had not."""
        return self._diverged(number, "error", None, f"{type(error).__name__}: {error}")

    def _diverged(self, step: int | None, field: str, recorded: Any, got: Any) -> Divergence:
        self.divergence = self.divergence or Divergence(step, field, plain(recorded), plain(got))
        return self.divergence


def as_float(reward: Any) -> float:
    """A reward as a float, as the record keeps it: it may be an array of one number."""
    try:
        return float(reward)
    except TypeError:
        return float(np.asarray(reward).reshape(-1)[0])
