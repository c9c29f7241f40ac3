"""A policy from a checkpoint: observations in, actions of the env out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from runspine.checkpoints import CheckpointAbout
from runspine.checkpoints.packed_arrays import unpack
from runspine.checkpoints.weights import load
from runspine.trainers.builtin.envs import actor, flattener
from runspine.trainers.builtin.normalisation import ObservationScale
from runspine.trainers.builtin.packing import Array
from runspine.trainers.evaluation.fit import check_fit
from runspine.trainers.evaluation.heads import Dice, make_head
from runspine.trainers.evaluation.networks import LayerChain


class Policy:
    """`act` returns the env's next action. Its randomness is seeded; a deterministic policy has none."""

    def __init__(self, about: CheckpointAbout, act: Callable[[Any], Any]) -> None:
        self.about = about
        self.act = act


def load_policy(
    path: Path, env: gym.Env[Any, Any], env_id: str, *, seed: int = 1, deterministic: bool = True
) -> Policy:
    """Load a policy. Raises CheckpointError, and EnvUnfitError when it does not fit the env."""
    about, saved, weights = load(path)
    if about.adapter.head == "atoms":
        atoms = int(weights["atoms"].numel())
        about = replace(about, details={**about.details, "choices": about.outputs // max(atoms, 1)})
    check_fit(about, env_id, env.observation_space, env.action_space)
    dice = Dice(seed, deterministic)
    if about.adapter.head == "table":
        return Policy(about, _from_table(weights["q"].numpy(), env, dice))
    see = _observer(about, saved, env.observation_space)
    network = LayerChain(about.adapter, weights)
    head = make_head(about.adapter, weights, env.action_space, dice, about.details.get("random", 0.0))
    finish = _finisher(env.action_space)

    @torch.inference_mode()
    def act(observation: Any) -> Any:
        return finish(head(*network(torch.from_numpy(see(observation)))))

    return Policy(about, act)


def _finisher(space: spaces.Space[Any]) -> Callable[[Array], Any]:
    """Return a function from the algorithm's action to the env's."""
    if isinstance(space, spaces.MultiDiscrete):
        return lambda action: (action.reshape(space.shape) + space.start).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return lambda action: action.reshape(space.shape).astype(space.dtype)
    return actor(space)


def _observer(about: CheckpointAbout, saved: Any, space: spaces.Space[Any]) -> Callable[[Any], Array]:
    """Return a function from the env's observation to a row for the network."""
    flat = flattener(space)
    kind = about.adapter.observations
    scale = ObservationScale(about.inputs, on=True)
    if kind == "moments" and about.details["moments"]:
        stored = saved["parts"]["observations"]
        moments = scale.moments
        moments.mean = unpack(stored.get("mean"), "observations.mean")
        moments.variance = unpack(stored.get("variance"), "observations.variance")
        return lambda seen: scale(flat(seen)[None])
    if kind == "running":

        def gather(seen: Any) -> Array:
            row = flat(seen)[None]
            scale.update(row)
            return scale(row)

        return gather
    return lambda seen: flat(seen)[None]


def _from_table(values: Array, env: gym.Env[Any, Any], dice: Dice) -> Callable[[Any], Any]:
    """The best action of a state: the first among equals; when stochastic, a random one of them."""
    first = int(getattr(env.observation_space, "start", 0))
    finish = actor(env.action_space)

    def act(state: Any) -> Any:
        row = values[int(state) - first]
        best = np.flatnonzero(row == row.max())
        return finish(best[0] if dice.deterministic or len(best) == 1 else dice.numpy.choice(best))

    return act
