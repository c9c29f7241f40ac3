"""Figures in CleanRL's prints: `global_step=1024, episodic_return=[475.], …` and `SPS: 1200`. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)"
_PAIR = re.compile(rf"\b(?P<key>[A-Za-z_]{{1,40}})=\[?\s{{0,4}}(?P<value>{_NUMBER})")
_RATE = re.compile(rf"SPS:\s{{0,4}}(?P<value>{_NUMBER})\s*\Z")
MAX_LENGTH = 2000
_LENGTHS = ("episodic_length", "episode_length")
_FIGURES = ("fps", "SPS", "time_elapsed")


class CleanrlPrint(NamedTuple):
    """What one line states. `step` and `value` are there together, of an episode that has ended."""

    step: int | None
    value: float | None
    # Steps of the episode; None when it is not printed.
    length: int | None
    # As metrics, under CleanRL's own tags.
    metrics: dict[str, float]


def read_print(text: str) -> CleanrlPrint | None:
    """The figures of a print; None when the line is not one."""
    if len(text) > MAX_LENGTH:
        return None
    if rate := _RATE.match(text):
        return CleanrlPrint(None, None, None, {"charts/SPS": float(rate["value"])})
    if "episodic_return=" not in text:
        return None
    pairs = {found["key"]: found["value"] for found in _PAIR.finditer(text)}
    step = _count(pairs.get("global_step", ""))
    if step is None or "episodic_return" not in pairs:
        return None
    length = next((_count(pairs[key]) for key in _LENGTHS if key in pairs), None)
    metrics = {f"charts/{key}": float(pairs[key]) for key in _FIGURES if key in pairs}
    return CleanrlPrint(step, float(pairs["episodic_return"]), length, metrics)


def _count(text: str) -> int | None:
    """A count, also as gymnasium prints arrays of floats (`475.`)."""
    digits = text.removesuffix(".").removesuffix(".0")
    return int(digits) if digits.isdecimal() and len(digits) <= 18 else None
