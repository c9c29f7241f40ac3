"""Checks that a policy fits an env: the sizes of its network against the env's spaces. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from runspine.checkpoints import CheckpointAbout
from runspine.trainers.builtin.envs import EnvUnfitError


def check_fit(
    about: CheckpointAbout, env_id: str, observations: spaces.Space[Any], actions: spaces.Space[Any]
) -> None:
    """Raises EnvUnfitError with the reason."""
    why = _observations(about, observations) or _actions(about, actions)
    if why:
        made = f", made in {about.env}," if about.env and about.env != env_id else ""
        raise EnvUnfitError(f"this checkpoint of {about.adapter.name}{made} does not fit {env_id}: {why}")


def _observations(about: CheckpointAbout, space: spaces.Space[Any]) -> str:
    if about.adapter.observations == "index":
        if not isinstance(space, spaces.Discrete):
            return f"its table has {about.inputs} states, and observations are {_short(space)}"
        known = int(space.n)
        return "" if known == about.inputs else f"its table has {about.inputs} states, and the env {known}"
    try:
        size = spaces.flatdim(space)
    except (NotImplementedError, ValueError):
        return f"observations {_short(space)} have no fixed size"
    if size != about.inputs:
        return f"its network takes {about.inputs} numbers, and an observation {_short(space)} has {size}"
    return ""


def _actions(about: CheckpointAbout, space: spaces.Space[Any]) -> str:
    head, outputs = about.adapter.head, about.outputs
    if head == "squashed" and not about.adapter.spread:
        outputs //= 2
    if head in ("gaussian", "squashed", "tanh"):
        if not isinstance(space, spaces.Box):
            return f"its actions are {outputs} numbers, and the env's are {_short(space)}"
        size = spaces.flatdim(space)
        if size != outputs:
            return f"its actions are {outputs} numbers, and an action {_short(space)} has {size}"
        if about.adapter.bounds == "space" and not space.is_bounded():
            return f"its actions fill the env's bounds, and {_short(space)} has none"
        return ""
    if head == "atoms":
        outputs = int(about.details.get("choices", 0)) or outputs
    choices = _choices(space) if head == "categorical" else _discrete(space)
    if choices is None:
        return f"it chooses among {outputs} actions, and the env's are {_short(space)}"
    return "" if choices == outputs else f"it chooses among {outputs} actions, and the env has {choices}"


def _discrete(space: spaces.Space[Any]) -> int | None:
    return int(space.n) if isinstance(space, spaces.Discrete) else None


def _choices(space: spaces.Space[Any]) -> int | None:
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape or ()))
    return _discrete(space)


def _short(space: spaces.Space[Any]) -> str:
    """Kind and size of a space, without its bounds."""
    if isinstance(space, spaces.Box):
        return f"Box{tuple(space.shape)}"
    return str(space)[:120]
