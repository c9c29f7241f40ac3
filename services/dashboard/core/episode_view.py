"""The values of an episode that the scrubber shows next to its frames. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from runspine.replay.record import EpisodeRecord
from runspine.sdk.encoding import plain
from runspine.services.dashboard.core.run_row import finite_or_none

# Observations with more numbers are shown by type and shape only.
MAX_SHOWN_NUMBERS = 64


def episode_summary(record: EpisodeRecord) -> dict[str, Any]:
    """Id, env, length, return and first observation of an episode."""
    entry = record.response.entry
    return {
        "id": record.id,
        "index": entry.index,
        "attempt": entry.attempt,
        "env": record.env.env_id,
        "length": record.length,
        "missing": record.missing,
        "return": finite_or_none(getattr(entry.episode, "return")),
        "agents": record.agents,
        "first": _observation_text(record.first.value(0), record.first.shown(0)),
    }


def episode_steps(record: EpisodeRecord, first: int, last: int) -> list[dict[str, Any]]:
    """Steps `first` to `last` (exclusive); `so_far` is the return up to and including the step."""
    first, last = max(0, first), min(last, record.length)
    totals = np.cumsum(record.rewards)
    return [_step(record, number, float(totals[number])) for number in range(first, last)]


def _step(record: EpisodeRecord, number: int, so_far: float) -> dict[str, Any]:
    found = record.step(number)
    seen, row = record.seen(number)
    instead = seen.shown(row) if found.observation is None else None
    return {
        "number": number,
        "action": _text(plain(found.action)),
        "actor": record.actor(number),
        "reward": finite_or_none(found.reward),
        "so_far": finite_or_none(so_far),
        "end": _end(found.terminated, found.truncated),
        "observation": _observation_text(found.observation, instead),
    }


def _end(terminated: bool, truncated: bool) -> str:
    return " and ".join(word for word, true in (("terminated", terminated), ("truncated", truncated)) if true)


def _observation_text(value: Any, instead: Any) -> str:
    if value is None:
        return "not recorded" if instead is None else str(instead)
    array = np.asarray(value) if not isinstance(value, dict | str) else None
    if array is not None and array.size > MAX_SHOWN_NUMBERS:
        return f"{array.dtype} {' × '.join(map(str, array.shape))}"
    return _text(plain(value))


def _text(value: Any, width: int = 600) -> str:
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, list) and all(isinstance(item, float) for item in value):
        text = f"[{', '.join(f'{item:.4g}' for item in value)}]"
    else:
        text = str(value)
    return text if len(text) <= width else f"{text[: width - 1]}…"
