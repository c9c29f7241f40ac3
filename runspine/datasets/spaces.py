"""Spaces in a few words, so that a dataset's and an env's can be compared without making either. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_BOX = re.compile(r"(\([\d, ]*\)), (\w+)\)\Z")


def from_minari(serialised: Any) -> str:
    """From the JSON in Minari's metadata; empty when it says nothing that is known."""
    try:
        told = json.loads(serialised) if isinstance(serialised, str) else serialised
    except ValueError:
        return ""
    if not isinstance(told, dict):
        return ""
    match told.get("type"):
        case "Box":
            shape = tuple(told.get("shape", ()))
            return f"Box{shape} {told.get('dtype')}"
        case "Discrete":
            return discrete(told.get("n", 0), told.get("start", 0))
        case "MultiDiscrete":
            return f"MultiDiscrete({told.get('nvec')})"
        case str(other):
            return other
    return ""


def from_text(kind: str, text: str) -> str:
    """From a Gymnasium space's own words."""
    if kind == "Box":
        found = _BOX.search(text)
        return f"Box{found[1]} {found[2]}" if found else "Box"
    if kind == "Discrete":
        numbers = [int(each) for each in re.findall(r"-?\d+", text)]
        return discrete(*numbers) if numbers else kind
    return kind


def discrete(count: Any, start: Any = 0) -> str:
    return f"Discrete({count})" if not start else f"Discrete({count}, start={start})"


def unlike(dataset: str, env: str) -> bool:
    """Whether data of one cannot be used in the other; the numbers' precision does not matter."""
    if dataset.startswith("Box") and env.startswith("Box"):
        return dataset.partition(" ")[0] != env.partition(" ")[0]
    return dataset != env
