"""Gymnasium spaces of observations and actions, and arrays in their form."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def make_env(env_id: str, kwargs_json: str) -> gym.Env[Any, Any] | None:
    """Create the env for its spaces; None when it cannot be created on this machine."""
    try:
        return gym.make(env_id, **json.loads(kwargs_json or "{}"))
    except (gym.error.Error, ImportError, TypeError, ValueError):
        return None


def space_of(values: list[Any]) -> spaces.Space[Any]:
    """Infer a space from data: shape and type, without bounds for boxes."""
    first = values[0]
    if isinstance(first, dict):
        return spaces.Dict({key: space_of([value[key] for value in values]) for key in sorted(first)})
    if isinstance(first, str):
        return spaces.Text(max(len(value) for value in values))
    rows = np.asarray(values)
    if rows.dtype.kind in "iu" and rows.ndim == 1:
        low = min(0, int(rows.min()))
        return spaces.Discrete(int(rows.max()) - low + 1, start=low)
    if rows.dtype.kind == "b":
        return spaces.MultiBinary(rows.shape[1:] or 1)
    if rows.dtype.kind in "iu":
        info = np.iinfo(rows.dtype)
        return spaces.Box(info.min, info.max, rows.shape[1:], rows.dtype.type)
    kind: Any = rows.dtype.type if rows.dtype.kind == "f" else np.float64
    return spaces.Box(-np.inf, np.inf, rows.shape[1:], kind)


def stacked(values: list[Any], space: spaces.Space[Any]) -> Any:
    """One array of all rows; for a composite space one for each part."""
    if isinstance(space, spaces.Dict):
        return {key: stacked([value[key] for value in values], part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked([value[n] for value in values], part) for n, part in enumerate(space.spaces))
    if isinstance(space, spaces.Text):
        return [str(value) for value in values]
    if isinstance(values[0], np.ndarray) and values[0].dtype.kind != "O":
        return np.stack(values)
    return np.asarray(values, dtype=space.dtype)
