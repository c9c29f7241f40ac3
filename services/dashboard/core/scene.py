"""An episode as the scrubber shows it: plain values beside the frames. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from runspine.replay.record import Record
from runspine.sdk.text import plain
from services.dashboard.core.runrow import finite

# Numbers of one observation that are written out; of larger ones only the shape is.
MOST_NUMBERS = 64


def about(record: Record) -> dict[str, Any]:
    """What is known before anything is drawn."""
    entry = record.said.entry
    return {
        "id": record.id,
        "index": entry.index,
        "attempt": entry.attempt,
        "env": record.env.env_id,
        "length": record.length,
        "missing": record.missing,
        "return": finite(getattr(entry.episode, "return")),
        "agents": record.agents,
        "first": _seen(record.first.value(0), record.first.told(0)),
    }


def steps(record: Record, first: int, last: int) -> list[dict[str, Any]]:
    """Steps first to last (not included); `so_far` is the return up to and with the step."""
    first, last = max(0, first), min(last, record.length)
    totals = np.cumsum(record.rewards)
    return [_step(record, number, float(totals[number])) for number in range(first, last)]


def _step(record: Record, number: int, so_far: float) -> dict[str, Any]:
    found = record.step(number)
    seen, row = record.seen(number)
    return {
        "number": number,
        "action": _text(plain(found.action)),
        "actor": record.actor(number),
        "reward": finite(found.reward),
        "so_far": finite(so_far),
        "end": _end(found.terminated, found.truncated),
        "observation": _seen(found.observation, seen.told(row) if found.observation is None else None),
    }


def _end(terminated: bool, truncated: bool) -> str:
    return " and ".join(word for word, true in (("terminated", terminated), ("truncated", truncated)) if true)


def _seen(value: Any, instead: Any) -> str:
    if value is None:
        return "not kept" if instead is None else str(instead)
    array = np.asarray(value) if not isinstance(value, dict | str) else None
    if array is not None and array.size > MOST_NUMBERS:
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
