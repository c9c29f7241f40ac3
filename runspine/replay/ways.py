"""Ways to bring an env to the start of an episode. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from runspine.replay.record import EpisodeRecord

# More resets take too long; the replay is then reported as diverged.
MAX_RESETS = 20_000


class Way(NamedTuple):
    """How to reach the start. By default: set the generator's state, reset, and act with numpy numbers."""

    # Resets before, for envs that keep more across a reset than their generator (BipedalWalker's world).
    resets: int = 0
    # Play the slot's earlier episodes first: for records without the generator's state.
    history: bool = False
    # Actions as Python numbers: the record does not distinguish them from numpy's, arithmetic does.
    python: bool = False

    def __str__(self) -> str:
        words = []
        if self.history:
            words.append("after the earlier episodes of its slot")
        if self.resets:
            words.append(f"after {self.resets:,} resets")
        if self.python:
            words.append("with Python's numbers as actions")
        return ", ".join(words) or "from the recorded state"


def ways_of(record: EpisodeRecord, before: Sequence[EpisodeRecord] = ()) -> list[Way]:
    """Ways to try, the likeliest first."""
    how = record.start
    found = [Way()] if how.is_known or not before else []
    if 0 < how.ordinal <= MAX_RESETS:
        found.append(Way(resets=how.ordinal))
    if before:
        found.append(Way(history=True))
    if record.is_scalar:
        found += [way._replace(python=True) for way in found]
    return found


def fitted(space: Any, value: Any) -> Any:
    """Convert a decoded JSON action to the types of the env's space."""
    kind = type(space).__name__
    if kind == "Dict" and isinstance(value, dict):
        return {key: fitted(space[key], value[str(key)]) for key in space.spaces if str(key) in value}
    if kind == "Tuple" and isinstance(value, list):
        return tuple(fitted(inner, item) for inner, item in zip(space.spaces, value, strict=True))
    if kind == "Discrete" and isinstance(value, int):
        return space.dtype.type(value)
    if kind in ("Box", "MultiDiscrete", "MultiBinary"):
        return np.asarray(value, space.dtype)
    return value
