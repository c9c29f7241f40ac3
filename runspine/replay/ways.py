"""Ways to bring an env to where an episode began. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from runspine.replay.record import Record

# Beyond this many resets nobody wants to wait; the replay then says that it diverged.
MOST_RESETS = 20_000


class Way(NamedTuple):
    """The usual one: the generator's state, the reset, and actions as numpy's numbers."""

    # Resets before, for envs that carry more over a reset than their generator (BipedalWalker's world).
    resets: int = 0
    # Play the slot's earlier episodes first: for records without the generator's state.
    history: bool = False
    # Actions as Python's own numbers: the record does not tell them from numpy's, arithmetic does.
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


def ways_of(record: Record, before: Sequence[Record] = ()) -> list[Way]:
    """All that are worth trying, the likeliest first."""
    how = record.beginning
    found = [Way()] if how.is_known or not before else []
    if 0 < how.ordinal <= MOST_RESETS:
        found.append(Way(resets=how.ordinal))
    if before:
        found.append(Way(history=True))
    if record.is_scalar:
        found += [way._replace(python=True) for way in found]
    return found


def fitted(space: Any, value: Any) -> Any:
    """What JSON made of an action, in the types that the env's space asks for."""
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
