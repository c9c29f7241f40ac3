"""Stable-Baselines3's zip: the plain fields of its `data`, without its pickles, and the policy's shapes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runspine.checkpoints.about import CheckpointAbout
from runspine.checkpoints.adapters import SB3
from runspine.checkpoints.archive import read_entry
from runspine.checkpoints.contents import sizes, text, whole
from runspine.checkpoints.errors import CheckpointError
from runspine.checkpoints.torch_file import read_shapes

POLICY, DATA, OURS = "policy.pth", "data", "runspine.json"
MAX_POLICY_BYTES = 2 << 30
MAX_DATA_BYTES = 256 << 20
# By the module of the policy's class, which `data` names in plain text.
_MODULES = {"dqn": "dqn", "sac": "sac", "td3": "td3"}
_MODULE = re.compile(r"stable_baselines3\.(\w+)\.policies\Z")
_ACTIVATION = re.compile(r"torch\.nn\.modules\.activation\.(\w+)")


def about_sb3(path: Path, names: Collection[str], name: str) -> CheckpointAbout:
    data = _object(path, DATA, names)
    ours = _object(path, OURS, names)
    algo = text(ours.get("algo")) or algo_of(data)
    if algo not in SB3:
        raise CheckpointError(
            f"{name} is of an algorithm of Stable-Baselines3 that is not supported ({algo or 'none'})"
        )
    weights = read_shapes(io.BytesIO(read_entry(path, POLICY, MAX_POLICY_BYTES, name)), f"{name}/{POLICY}")
    if not isinstance(weights, Mapping):
        raise CheckpointError(f"{name}/{POLICY} holds no weights")
    adapter = next((each for each in SB3[algo] if each.fits(set(weights))), None)
    if adapter is None:
        raise CheckpointError(
            f"{name} has a policy that is not {algo}'s MlpPolicy: custom networks, and "
            "those for images, are not evaluated here"
        )
    if data.get("use_sde") is True:
        raise CheckpointError(f"{name} explores with gSDE (use_sde), whose policies are not evaluated here")
    inputs, outputs = sizes(adapter, weights, name)
    return CheckpointAbout(
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
    """The algorithm, by the class of the policy and by parameters that only one algorithm has."""
    policy = data.get("policy_class")
    module = policy.get("__module__", "") if isinstance(policy, dict) else ""
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
        found = json.loads(read_entry(path, entry, MAX_DATA_BYTES, path.name))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name}: {entry} is not JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _activation(data: Mapping[str, Any], default: Any) -> Any:
    """The activation that `policy_kwargs` names; the pickled class is not read."""
    kwargs = data.get("policy_kwargs")
    activation = kwargs.get("activation_fn") if isinstance(kwargs, dict) else None
    if activation is None:
        return default
    match = _ACTIVATION.search(str(activation))
    known = {"Tanh": "tanh", "ReLU": "relu"}.get(match[1] if match else "")
    if known is None:
        raise CheckpointError(f"its activation {str(activation)[:80]} is not one of torch's Tanh and ReLU")
    return known


def _spaces(data: Mapping[str, Any]) -> dict[str, str]:
    """Kind and shape of observations and actions, for display."""
    found = {}
    for name in ("observation_space", "action_space"):
        space = data.get(name)
        if isinstance(space, dict):
            kind = re.search(r"(\w+)'>", str(space.get(":type:", "")))
            size = space.get("n") or space.get("nvec") or space.get("_shape")
            found[name] = f"{kind[1] if kind else '?'}({size})"
    return found


def _share(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else 0.0


def _mean(ours: Mapping[str, Any]) -> float | None:
    history = ours.get("history")
    last = history.get("last") if isinstance(history, dict) else None
    numbers = [each for each in last if isinstance(each, int | float)] if isinstance(last, list) else []
    return sum(numbers) / len(numbers) if numbers else None
