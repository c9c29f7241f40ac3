"""The run's dataset as tensors, and the env in which its policies are evaluated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from runspine.datasets import DatasetError, Manifest
from runspine.datasets.fit import unfit_spaces
from runspine.datasets.manifest import NAME, read_manifest
from runspine.datasets.minari_folder import Transitions, read_transitions
from runspine.datasets.spaces import from_text
from runspine.trainers.builtin.envs import EndedEpisode, Envs, EnvUnfitError, actor, flattener, make
from runspine.trainers.builtin.normalisation import ObservationScale
from runspine.trainers.builtin.packing import Array, pack, unpack
from runspine.trainers.builtin.replay_buffer import Sample

# Offset of the seeds of evaluation episodes, away from those of training.
EVALUATION_SEEDS = 10_000


class Data:
    """Transitions of the dataset; with `room`, also those added while acting in the env."""

    def __init__(
        self, found: Transitions, scale: ObservationScale, device: torch.device, room: int = 0
    ) -> None:
        self.size = self.given = len(found.rewards)
        self._room, self._next = room, 0
        self._scale, self._device = scale, device
        columns = {
            "obs": found.observations,
            "next_obs": found.next_observations,
            "actions": found.actions,
            "rewards": found.rewards,
            "ended": found.terminals.astype(np.float32),
        }
        self._columns = {name: _with_room(column, room) for name, column in columns.items()}
        self._ends = np.flatnonzero(found.terminals | found.timeouts)

    def keep_best(self, share: float) -> None:
        """Keep only the episodes with the highest returns, at least one."""
        if share >= 1.0:
            return
        starts = np.concatenate([[0], self._ends[:-1] + 1])
        totals = np.add.reduceat(self._columns["rewards"], starts)
        best = np.sort(np.argsort(-totals, kind="stable")[: max(1, round(share * len(totals)))])
        rows = np.concatenate([np.arange(starts[n], self._ends[n] + 1) for n in best])
        self._columns = {name: column[rows] for name, column in self._columns.items()}
        self.size = self.given = len(rows)

    def add(self, obs: Array, next_obs: Array, action: Array, reward: float, ended: bool) -> None:
        """Add a transition; the oldest added one is overwritten first."""
        row = self.given + self._next
        added = {"obs": obs, "next_obs": next_obs, "actions": action, "rewards": reward, "ended": ended}
        for name, value in added.items():
            self._columns[name][row] = value
        self._next = (self._next + 1) % self._room
        self.size = max(self.size, row + 1)

    def sample(self, count: int, rng: np.random.Generator) -> Sample:
        """Sample transitions with normalised observations."""
        rows = rng.integers(0, self.size, count)
        drawn = {name: column[rows] for name, column in self._columns.items()}
        drawn |= {name: self._scale(drawn[name]) for name in ("obs", "next_obs")}
        return Sample(**{name: torch.from_numpy(rows).to(self._device) for name, rows in drawn.items()})

    def state_dict(self) -> dict[str, Any]:
        """The added transitions, which are not in the dataset."""
        added = {name: pack(column[self.given : self.size]) for name, column in self._columns.items()}
        return {"given": self.given, "next": self._next, "added": added}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["given"] != self.given:
            raise EnvUnfitError(
                f"the checkpoint was made on {state['given']:,} transitions, not {self.given:,}"
            )
        added = {name: unpack(rows) for name, rows in state["added"].items()}
        self._next, self.size = state["next"], self.given + len(added["rewards"])
        for name, rows in added.items():
            self._columns[name][self.given : self.size] = rows


class Arena(Envs):
    """An env to evaluate a policy in. Its steps are not part of the training and not recorded.

    Every episode has its own seed, so no state needs saving.
    """

    def __init__(self, env_id: str, kwargs: str, seed: int) -> None:
        env = make(env_id, kwargs)
        self.observations, self.actions = env.observation_space, env.action_space
        self.envs = [env]
        self.seed = seed
        self._encode = flattener(self.observations)
        self.obs_dim = spaces.flatdim(self.observations)
        self._act = actor(self.actions)

    def reset(self) -> None:
        """Do nothing: each episode resets the env."""

    def play(
        self, act: Callable[[Array], Array], episodes: int, stop: Callable[[], bool]
    ) -> list[EndedEpisode]:
        """Play whole episodes; `act` takes and returns a row. Ends early once `stop` returns true."""
        env = self.envs[0]
        played: list[EndedEpisode] = []
        for number in range(episodes):
            seen, _ = env.reset(seed=self.seed + EVALUATION_SEEDS + number)
            total, length, done = 0.0, 0, False
            while not done:
                if stop():
                    return played
                row = np.asarray(self._encode(seen), np.float32)
                seen, reward, terminated, truncated, _ = env.step(self._act(act(row)))
                total += float(reward)
                length += 1
                done = bool(terminated or truncated)
            played.append(EndedEpisode(total, length))
        return played

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing: there is no state."""


def load_dataset(env_id: str, envs: Envs) -> tuple[Manifest, Transitions]:
    """Read the dataset that the worker has fetched for the run. Raises EnvUnfitError."""
    given = os.environ.get("RUNSPINE_DATASET")
    if not given:
        raise EnvUnfitError(
            "no dataset: name one in the run's field `dataset`, or set RUNSPINE_DATASET to its folder"
        )
    try:
        manifest = read_manifest((Path(given) / NAME).read_bytes())
        found = read_transitions(Path(given))
    except (DatasetError, OSError) as error:
        raise EnvUnfitError(f"dataset {given}: {error}") from error
    observations, actions = (
        from_text(type(space).__name__, str(space)) for space in (envs.observations, envs.actions)
    )
    if why := unfit_spaces(manifest, given, observations, actions):
        raise EnvUnfitError(why)
    return manifest, found._replace(actions=action_rows(found.actions, envs.actions, env_id))


def action_rows(actions: Array, space: spaces.Space[Any], env_id: str) -> Array:
    """Actions as the algorithms use them: numbers from 0, or rows of floats."""
    if isinstance(space, spaces.Discrete):
        return (actions.reshape(len(actions)) - int(space.start)).astype(np.int64)
    if isinstance(space, spaces.Box):
        return actions.reshape(len(actions), -1).astype(np.float32)
    raise EnvUnfitError(f"actions {space} of {env_id} are neither Discrete nor Box")


def scale_of(found: Transitions, size: int) -> ObservationScale:
    """Scale with mean and variance of the dataset's observations."""
    scale = ObservationScale(size, on=True)
    scale.update(found.observations)
    return scale


def _with_room(column: Array, room: int) -> Array:
    if not room:
        return np.ascontiguousarray(column)
    return np.concatenate([column, np.zeros((room, *column.shape[1:]), column.dtype)])
