"""A few envs stepped in sequence, with snapshots for exact resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import runspine
from runspine.trainers.builtin.packing import Array, pack, unpack

if TYPE_CHECKING:
    from runspine.trainers.builtin.fork import Fork


class EnvUnfitError(Exception):
    """The algorithm cannot learn in this env, or the env cannot be made; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class EndedEpisode:
    """Return and length of an episode."""

    total: float
    length: int


@dataclass(frozen=True, slots=True)
class EnvsStep:
    """Result of one step of all envs.

    `obs` holds the observations to act on next: of the new episode where one has just ended. `final` then
    holds the last observation of the old one, by the env's index.
    """

    obs: Array
    rewards: Array
    terminated: Array
    truncated: Array
    final: dict[int, Array]
    episodes: list[EndedEpisode]


class Envs:
    """Envs of a training. `flat` makes observations rows of floats; else they stay integers of a tabular env.

    With a `fork`, the first episode of slot 0 begins where its record leads, or every episode does.
    """

    def __init__(
        self,
        env_id: str,
        kwargs: str,
        count: int,
        seed: int,
        *,
        flat: bool = True,
        fork: Fork | None = None,
    ) -> None:
        made = [fork.env() if fork else make(env_id, kwargs) for _ in range(count)]
        self._fork = fork
        self.observations: spaces.Space[Any] = made[0].observation_space
        self.actions: spaces.Space[Any] = made[0].action_space
        # The innermost wrapper, so that recorded actions and rewards are the env's own.
        self.envs = [runspine.wrap(env, slot=slot) for slot, env in enumerate(made)]
        self.seed = seed
        self._encode = flattener(self.observations) if flat else np.asarray
        self.obs_dim = spaces.flatdim(self.observations) if flat else 1
        self._act = actor(self.actions)
        shape = (count, self.obs_dim) if flat else (count,)
        self.obs: Array = np.zeros(shape, np.float32 if flat else np.int64)
        self._totals = [0.0] * count
        self._lengths = [0] * count
        # Called at each episode's end, before its env is reset.
        self.on_end: Callable[[int, EndedEpisode], None] = lambda slot, episode: None

    def __len__(self) -> int:
        return len(self.envs)

    def reset(self) -> None:
        """Begin every env's first episode."""
        for slot, env in enumerate(self.envs):
            if self._fork and (slot == 0 or self._fork.every):
                first = self._forked(slot)
            else:
                first, _ = env.reset(seed=self.seed + slot)
            self.obs[slot] = self._encode(first)

    def _forked(self, slot: int) -> Any:
        """Begin an episode with the recorded steps: they count in its return and its length."""
        assert self._fork is not None
        stands = self._fork.reach(self.envs[slot])
        self._totals[slot], self._lengths[slot] = stands.value, stands.steps
        return stands.observation

    def step(self, actions: Array) -> EnvsStep:
        """Take one action in each env. An env whose episode ends begins the next in the same step."""
        count = len(self.envs)
        obs = np.empty_like(self.obs)
        rewards = np.zeros(count, np.float32)
        terminated, truncated = np.zeros(count, bool), np.zeros(count, bool)
        final: dict[int, Array] = {}
        episodes: list[EndedEpisode] = []
        for slot, env in enumerate(self.envs):
            seen, reward, terminal, cut, _ = env.step(self._act(actions[slot]))
            self._totals[slot] += float(reward)
            self._lengths[slot] += 1
            rewards[slot], terminated[slot], truncated[slot] = reward, terminal, cut
            if terminal or cut:
                final[slot] = np.array(self._encode(seen), obs.dtype)
                episodes.append(EndedEpisode(self._totals[slot], self._lengths[slot]))
                self.on_end(slot, episodes[-1])
                self._totals[slot], self._lengths[slot] = 0.0, 0
                again = self._fork is not None and self._fork.every
                seen = self._forked(slot) if again else env.reset()[0]
            obs[slot] = self._encode(seen)
        self.obs = obs
        return EnvsStep(obs, rewards, terminated, truncated, final, episodes)

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def state_dict(self) -> dict[str, Any]:
        """Snapshot of every env in its episode, which the SDK restores."""
        return {
            "snapshots": [env.snapshot() for env in self.envs],
            "obs": pack(self.obs),
            "totals": list(self._totals),
            "lengths": list(self._lengths),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if len(state["snapshots"]) != len(self.envs):
            raise ValueError(f"the checkpoint has {len(state['snapshots'])} envs, not {len(self.envs)}")
        for env, snapshot in zip(self.envs, state["snapshots"], strict=True):
            env.restore(snapshot)
        self.obs = unpack(state["obs"])
        self._totals, self._lengths = list(state["totals"]), list(state["lengths"])


def given_kwargs(text: str) -> dict[str, Any]:
    """Arguments of gymnasium.make. Raises EnvUnfitError."""
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise EnvUnfitError(f"--env-kwargs is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise EnvUnfitError('--env-kwargs must be a JSON object, such as {"is_slippery": false}')
    return given


def make(env_id: str, kwargs: str) -> gym.Env[Any, Any]:
    """Make an env. Raises EnvUnfitError with the reason."""
    given = given_kwargs(kwargs)
    try:
        return gym.make(env_id, **given)
    except (gym.error.Error, ImportError, TypeError, ValueError, KeyError) as error:
        raise EnvUnfitError(f"env {env_id} cannot be made: {error}") from error


def flattener(space: spaces.Space[Any]) -> Callable[[Any], Array]:
    """Return a function from the space's observations to a row of float32."""
    if isinstance(space, spaces.Box):
        size = spaces.flatdim(space)
        return lambda seen: np.asarray(seen, np.float32).reshape(size)
    try:
        spaces.flatdim(space)
    except (NotImplementedError, ValueError) as error:
        raise EnvUnfitError(f"observations {space} have no fixed size and cannot be flattened") from error
    return lambda seen: np.asarray(spaces.flatten(space, seen), np.float32)


def actor(space: spaces.Space[Any]) -> Callable[[Any], Any]:
    """Return a function from an algorithm's action to the env's: offset by its start, or clipped."""
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return lambda action: int(action) + first
    if isinstance(space, spaces.Box):
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
        return lambda action: np.clip(np.reshape(action, shape), low, high).astype(dtype)
    raise EnvUnfitError(f"actions {space} are neither Discrete nor Box")
