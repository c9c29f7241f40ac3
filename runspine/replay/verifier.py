"""Compares a replay with its record, step by step, to the first divergence. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from runspine.replay.divergence import Divergence
from runspine.replay.record import Record
from runspine.sdk.lines import TERMINATED, TRUNCATED
from runspine.sdk.text import plain


class Verifier:
    """Told what an env gives. `divergence` is the first thing that was not as recorded; it stays."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._rewards = record.rewards.tolist()
        self.divergence: Divergence | None = None
        self.steps = 0

    def began(self, observation: Any) -> Divergence | None:
        first = self._record.first
        if not first.matches(0, observation):
            return self._diverged(None, "observation", first.told(0), first.also(observation))
        return None

    def stepped(self, number: int, result: Any) -> Divergence | None:
        """What `step` gave for the action of that number."""
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
            return self._diverged(number, "observation", seen.told(row), seen.also(observation))
        self.steps = number + 1
        return None

    def raised(self, number: int | None, error: Exception) -> Divergence | None:
        """The env did not take what it had taken."""
        return self._diverged(number, "error", None, f"{type(error).__name__}: {error}")

    def _diverged(self, step: int | None, field: str, recorded: Any, got: Any) -> Divergence:
        self.divergence = self.divergence or Divergence(step, field, plain(recorded), plain(got))
        return self.divergence


def as_float(reward: Any) -> float:
    """As the record keeps it: a reward may be an array of one number."""
    try:
        return float(reward)
    except TypeError:
        return float(np.asarray(reward).reshape(-1)[0])
