"""Short descriptions of spaces, to compare a dataset's with an env's without creating either. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_BOX = re.compile(r"(\([\d, ]*\)), (\w+)\)\Z")


def from_minari(serialised: Any) -> str:
    """The space in Minari's JSON metadata; empty when it is unknown."""
    try:
        found = json.loads(serialised) if isinstance(serialised, str) else serialised
    except ValueError:
        return ""
    if not isinstance(found, dict):
        return ""
    match found.get("type"):
        case "Box":
            shape = tuple(found.get("shape", ()))
            return f"Box{shape} {found.get('dtype')}"
        case "Discrete":
            return discrete(found.get("n", 0), found.get("start", 0))
        case "MultiDiscrete":
            return f"MultiDiscrete({found.get('nvec')})"
        case str(other):
            return other
    return ""


def from_text(kind: str, text: str) -> str:
    """The space from the text of a Gymnasium space."""
    if kind == "Box":
        found = _BOX.search(text)
        return f"Box{found[1]} {found[2]}" if found else "Box"
    if kind == "Discrete":
        numbers = [int(each) for each in re.findall(r"-?\d+", text)]
        return discrete(*numbers) if numbers else kind
    return kind


def discrete(count: Any, start: Any = 0) -> str:
    return f"Discrete({count})" if not start else f"Discrete({count}, start={start})"


def differ(dataset: str, env: str) -> bool:
    """Whether data of one cannot be used in the other; precision does not matter."""
    if dataset.startswith("Box") and env.startswith("Box"):
        return dataset.partition(" ")[0] != env.partition(" ")[0]
    return dataset != env
