"""Stand-ins for `d4rl` and `gym` in CORL's scripts: our dataset, and Gymnasium with gym's old API.

There is one env, the run's, whatever id a script makes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from runspine.datasets.manifest import NAME, Manifest, read_manifest
from runspine.datasets.minari_folder import Transitions, read_transitions
from runspine.instrument.record import echo, record


class RunDataset:
    """The run's dataset, read once."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["RUNSPINE_DATASET"])
        self.manifest: Manifest = read_manifest((self._folder / NAME).read_bytes())
        self._found: Transitions | None = None

    @property
    def found(self) -> Transitions:
        if self._found is None:
            self._found = read_transitions(self._folder)
        return self._found

    def whole(self) -> dict[str, Any]:
        """The dataset as `env.get_dataset()` returns it."""
        found = self.found
        return {
            "observations": found.observations,
            "actions": found.actions.astype(np.float32),
            "rewards": found.rewards,
            "terminals": found.terminals,
            "timeouts": found.timeouts,
        }

    def for_q_learning(self) -> dict[str, Any]:
        columns = self.whole()
        columns.pop("timeouts")
        if not self.found.terminals.any():
            # With less than 1,000 steps `any_percent_bc` finds none, and fails on an empty array; its own
            # parameter max_traj_len is never used.
            echo(
                "no episode of the dataset ends by itself: a script that finds episodes by terminal states "
                "alone, as any_percent_bc does, takes every 1,000 steps for one"
            )
        return {**columns, "next_observations": self.found.next_observations}


class OldEnv:
    """A Gymnasium env with gym's old reset and step, and d4rl's scores. Its episodes are recorded."""

    def __init__(self, env: Any, served: RunDataset) -> None:
        self._env, self._served = env, served
        self._seed: int | None = None
        self._total, self._length = 0.0, 0
        self.action_space, self.observation_space = env.action_space, env.observation_space
        self.spec, self.unwrapped = env.spec, env.unwrapped
        self._max_episode_steps = env.spec.max_episode_steps or 1000
        self.ref_min_score = served.manifest.returns.random
        self.ref_max_score = served.manifest.returns.expert

    def seed(self, seed: int | None = None) -> list[int | None]:
        self._seed = seed
        return [seed]

    def reset(self, **_: Any) -> Any:
        seed, self._seed = self._seed, None
        self._total, self._length = 0.0, 0
        return self._env.reset(seed=seed)[0]

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        space = self.action_space
        observation, reward, terminated, truncated, info = self._env.step(
            np.asarray(action, space.dtype).reshape(space.shape)
        )
        self._total += float(reward)
        self._length += 1
        if terminated or truncated:
            record.run.log_episode(
                self._total, self._length, terminated=bool(terminated), truncated=bool(truncated)
            )
        return (
            observation,
            float(reward),
            bool(terminated or truncated),
            {**info, "TimeLimit.truncated": bool(truncated)},
        )

    def get_dataset(self, **_: Any) -> dict[str, Any]:
        return self._served.whole()

    def get_normalized_score(self, value: Any) -> Any:
        """Normalise a return: 0 is a random policy, 1 an expert; NaN when the dataset has neither."""
        low, high = self.ref_min_score, self.ref_max_score
        if low is None or high is None or low == high:
            return np.full_like(np.asarray(value, np.float64), np.nan)
        return (np.asarray(value, np.float64) - low) / (high - low)

    def close(self) -> None:
        self._env.close()

    def render(self, *_: Any, **__: Any) -> Any:
        return self._env.render()


class Wrapper(OldEnv):
    """Forwards everything to the wrapped env."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name in ("env", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.env, name)

    def seed(self, seed: int | None = None) -> Any:
        return self.env.seed(seed)

    def reset(self, **named: Any) -> Any:
        return self.env.reset(**named)

    def step(self, action: Any) -> Any:
        return self.env.step(action)

    def get_dataset(self, **named: Any) -> Any:
        return self.env.get_dataset(**named)

    def get_normalized_score(self, value: Any) -> Any:
        return self.env.get_normalized_score(value)

    def close(self) -> None:
        self.env.close()


class TransformObservation(Wrapper):
    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def reset(self, **named: Any) -> Any:
        return self.f(self.env.reset(**named))

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return (self.f(observation), *rest)


class TransformReward(Wrapper):
    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        return (observation, self.f(reward), *rest)


def make_env(served: RunDataset) -> Callable[..., OldEnv]:
    def make(name: str = "", **_: Any) -> OldEnv:
        import gymnasium

        manifest = served.manifest
        if name and name != manifest.env:
            echo(f"gym.make({name!r}): the dataset is of {manifest.env}, which is made instead")
        kwargs = json.loads(os.environ.get("RUNSPINE_ENV_KWARGS") or "{}") or manifest.env_kwargs
        return OldEnv(gymnasium.make(manifest.env, **kwargs), served)

    return make


def modules(served: RunDataset) -> dict[str, Callable[[str], ModuleType]]:
    """Factories of the modules by name, for StandInFinder."""

    def d4rl(name: str) -> ModuleType:
        module = ModuleType(name)
        vars(module)["qlearning_dataset"] = lambda env=None, dataset=None, **_: served.for_q_learning()
        return module

    def wrappers(name: str) -> ModuleType:
        module = ModuleType(name)
        for kind in (TransformObservation, TransformReward):
            vars(module)[kind.__name__] = kind
        return module

    def gym(name: str) -> ModuleType:
        module = ModuleType(name)
        names = {
            "make": make_env(served),
            "Env": OldEnv,
            "Wrapper": Wrapper,
            "wrappers": wrappers("gym.wrappers"),
        }
        vars(module).update(names, __version__="0.23.1")
        return module

    return {"d4rl": d4rl, "gym": gym, "gym.wrappers": wrappers}
