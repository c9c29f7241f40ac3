"""Stable-Baselines3's zip: plain fields of its `data`, never the pickles in it, and the policy's shapes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runspine.checkpoints.about import About
from runspine.checkpoints.adapters import SB3
from runspine.checkpoints.archive import read_entry
from runspine.checkpoints.bad import BadCheckpoint
from runspine.checkpoints.contents import sizes, text, whole
from runspine.checkpoints.torch_file import read_shapes

POLICY, DATA, OURS = "policy.pth", "data", "runspine.json"
LARGEST_POLICY = 2 << 30
LARGEST_DATA = 256 << 20
# By the module of the policy's class, which `data` names in plain text.
_MODULES = {"dqn": "dqn", "sac": "sac", "td3": "td3"}
_MODULE = re.compile(r"stable_baselines3\.(\w+)\.policies\Z")
_ACTIVATION = re.compile(r"torch\.nn\.modules\.activation\.(\w+)")


def about_sb3(path: Path, names: Collection[str], name: str) -> About:
    data = _object(path, DATA, names)
    ours = _object(path, OURS, names)
    algo = text(ours.get("algo")) or algo_of(data)
    if algo not in SB3:
        raise BadCheckpoint(
            f"{name} is of an algorithm of Stable-Baselines3 that is not known here ({algo or 'none'})"
        )
    weights = read_shapes(io.BytesIO(read_entry(path, POLICY, LARGEST_POLICY, name)), f"{name}/{POLICY}")
    if not isinstance(weights, Mapping):
        raise BadCheckpoint(f"{name}/{POLICY} holds no weights")
    adapter = next((each for each in SB3[algo] if each.fits(set(weights))), None)
    if adapter is None:
        raise BadCheckpoint(
            f"{name} has a policy that is not put together as {algo}'s MlpPolicy: custom networks, and "
            "those for images, are not evaluated here"
        )
    if data.get("use_sde") is True:
        raise BadCheckpoint(f"{name} explores with gSDE (use_sde), whose policies are not evaluated here")
    inputs, outputs = sizes(adapter, weights, name)
    return About(
        runner="sb3",
        algo=algo,
        adapter=replace(adapter, activation=_activation(data, adapter.activation)),
        env=text(ours.get("env_id")),
        seed=whole(ours.get("seed")) if ours else whole(data.get("seed")),
        step=whole(data.get("num_timesteps")) or 0,
        inputs=inputs,
        outputs=outputs,
        return_mean=_mean(ours),
        details={"random": _share(data.get("exploration_rate")), "spaces": _spaces(data)},
    )


def algo_of(data: Mapping[str, Any]) -> str:
    """By the class of the policy and the parameters that only one of its users has."""
    told = data.get("policy_class")
    module = told.get("__module__", "") if isinstance(told, dict) else ""
    match = _MODULE.match(module if isinstance(module, str) else "")
    if not match:
        return ""
    if match[1] == "common":
        return "ppo" if "clip_range" in data and "n_epochs" in data else "a2c"
    algo = _MODULES.get(match[1], "")
    kwargs = data.get("policy_kwargs")
    if algo == "td3" and isinstance(kwargs, dict) and kwargs.get("n_critics") == 1:
        return "ddpg"
    return algo


def _object(path: Path, entry: str, names: Collection[str]) -> dict[str, Any]:
    if entry not in names:
        return {}
    try:
        found = json.loads(read_entry(path, entry, LARGEST_DATA, path.name))
    except (ValueError, RecursionError) as error:
        raise BadCheckpoint(f"{path.name}: {entry} is not JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _activation(data: Mapping[str, Any], default: Any) -> Any:
    """As `policy_kwargs` names it; the class itself is in a pickle and stays there."""
    kwargs = data.get("policy_kwargs")
    told = kwargs.get("activation_fn") if isinstance(kwargs, dict) else None
    if told is None:
        return default
    match = _ACTIVATION.search(str(told))
    known = {"Tanh": "tanh", "ReLU": "relu"}.get(match[1] if match else "")
    if known is None:
        raise BadCheckpoint(f"its activation {str(told)[:80]} is not one of torch's Tanh and ReLU")
    return known


def _spaces(data: Mapping[str, Any]) -> dict[str, str]:
    """Kind and shape of observations and actions, for people."""
    found = {}
    for name in ("observation_space", "action_space"):
        told = data.get(name)
        if isinstance(told, dict):
            kind = re.search(r"(\w+)'>", str(told.get(":type:", "")))
            size = told.get("n") or told.get("nvec") or told.get("_shape")
            found[name] = f"{kind[1] if kind else '?'}({size})"
    return found


def _share(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else 0.0


def _mean(ours: Mapping[str, Any]) -> float | None:
    history = ours.get("history")
    last = history.get("last") if isinstance(history, dict) else None
    numbers = [each for each in last if isinstance(each, int | float)] if isinstance(last, list) else []
    return sum(numbers) / len(numbers) if numbers else None
