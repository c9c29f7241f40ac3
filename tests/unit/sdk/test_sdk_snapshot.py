"""An env put back in mid-episode goes on exactly as the one that was not disturbed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from runspine.sdk.run import Run
from runspine.sdk.snapshot import DivergedError
from runspine.sdk.wrapping import wrapped
from tests.kit.samples.sdk import Listener, of_type

ENVS = [
    ("CartPole-v1", {}),
    ("LunarLander-v3", {}),
    ("LunarLander-v3", {"continuous": True, "enable_wind": True}),
    ("FrozenLake-v1", {"is_slippery": True}),
    ("Taxi-v4", {}),
    ("Pendulum-v1", {}),
    ("MountainCar-v0", {}),
    ("MountainCarContinuous-v0", {}),
    ("Blackjack-v1", {}),
]


def outside() -> Run:
    return Run({})


def walk(env: Any, actions: list[Any]) -> list[Any]:
    """Everything the env gives, with a reset wherever an episode ends."""
    seen: list[Any] = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append((np.asarray(observation).tobytes(), float(reward), bool(terminated), bool(truncated)))
        if terminated or truncated:
            seen.append(np.asarray(env.reset()[0]).tobytes())
    return seen


def some_actions(env: Any, count: int, seed: int = 3) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


@pytest.mark.parametrize(("env_id", "kwargs"), ENVS)
@pytest.mark.parametrize("seed", [None, 7])
def test_a_restored_env_goes_on_bit_by_bit(env_id: str, kwargs: dict[str, Any], seed: int | None) -> None:
    env = wrapped(outside(), gym.make(env_id, **kwargs), None)
    env.reset(seed=seed)
    before, after = some_actions(env, 137), some_actions(env, 150, seed=4)
    walk(env, before)
    snapshot = json.loads(json.dumps(env.snapshot()))
    undisturbed = walk(env, after)
    fresh = wrapped(outside(), gym.make(env_id, **kwargs), None)
    fresh.restore(snapshot)
    assert walk(fresh, after) == undisturbed
    assert fresh.recorder.steps == env.recorder.steps == 287
    env.close()
    fresh.close()


def test_an_episode_that_has_just_ended_is_restored_to_its_end() -> None:
    env = wrapped(outside(), gym.make("CartPole-v1"), None)
    env.reset()
    while True:
        *_, terminated, _, _ = env.step(1)
        if terminated:
            break
    snapshot = env.snapshot()
    first = env.reset()[0]
    fresh = wrapped(outside(), gym.make("CartPole-v1"), None)
    fresh.restore(snapshot)
    np.testing.assert_array_equal(fresh.reset()[0], first)


def test_an_env_that_was_never_reset_has_a_snapshot_too() -> None:
    env = wrapped(outside(), gym.make("CartPole-v1"), None)
    fresh = wrapped(outside(), gym.make("CartPole-v1"), None)
    assert fresh.restore(env.snapshot()) == (None, {})


def test_a_snapshot_fits_into_a_checkpoint_that_runs_no_code() -> None:
    torch = pytest.importorskip("torch")
    env = wrapped(outside(), gym.make("Pendulum-v1"), None)
    env.reset(seed=1)
    env.step(np.array([0.5], dtype=np.float32))
    file = io.BytesIO()
    torch.save({"envs": [env.snapshot()]}, file)
    file.seek(0)
    assert torch.load(file, weights_only=True)["envs"] == [env.snapshot()]


def test_a_snapshot_in_the_middle_of_a_step_is_refused() -> None:
    class Curious(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            env.snapshot()
            return super().step(action)

    env = wrapped(outside(), Curious(gym.make("CartPole-v1")), None)
    env.reset()
    with pytest.raises(RuntimeError, match="in mid-step"):
        env.step(0)


def test_an_env_that_comes_out_elsewhere_is_refused_with_the_reason() -> None:
    env = wrapped(outside(), gym.make("Pendulum-v1"), None)
    env.reset(seed=1)
    walk(env, some_actions(env, 20))
    other = wrapped(outside(), gym.make("Pendulum-v1", g=9.0), None)
    with pytest.raises(DivergedError, match=r"Pendulum-v1 gave another .* after step 20 .* other arguments"):
        other.restore(env.snapshot())


class Structured(gym.Env[Any, Any]):
    """Dict observations, tuple actions, and noise."""

    observation_space = gym.spaces.Dict({"at": gym.spaces.Box(-9, 9, (2,), np.float32)})
    action_space = gym.spaces.Tuple(
        [gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Dict({"k": gym.spaces.Discrete(3)})]
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = self.np_random.normal(size=2).astype(np.float32)
        return {"at": self.at.copy()}, {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        noise = self.np_random.normal(size=2).astype(np.float32)
        self.at += action[0] * action[1]["k"] + noise
        return {"at": self.at.copy()}, 1.0, False, False, {}


def test_structured_actions_are_replayed_with_their_dtypes() -> None:
    env = wrapped(outside(), Structured(), None)
    env.reset()
    actions = some_actions(env, 30)
    for action in actions:
        env.step(action)
    fresh = wrapped(outside(), Structured(), None)
    observation, _ = fresh.restore(json.loads(json.dumps(env.snapshot())))
    np.testing.assert_array_equal(observation["at"], env.unwrapped.at)


def test_the_telemetry_of_a_resumed_attempt_goes_on_at_the_right_step(tmp_path: Path) -> None:
    env = wrapped(outside(), gym.make("MountainCar-v0"), None)
    env.reset(seed=1)
    walk(env, [0] * 250)
    snapshot = env.snapshot()
    listener = Listener(tmp_path)
    resumed = listener.wrap(gym.make("MountainCar-v0"))
    resumed.restore(snapshot)
    walk(resumed, [0] * 150)
    walk(env, [0] * 150)
    lines = listener.lines()
    reset, _ = of_type(lines, "reset")
    assert reset["episode_id"] == "0-1"
    assert reset["rng"] == snapshot["episode"]["rng"]
    first = of_type(lines, "steps")[0]
    assert (first["episode_id"], first["first"], first["global_step"]) == ("0-1", 50, 250)
    (episode,) = of_type(lines, "episode")
    assert (episode["episode_id"], episode["steps"], episode["return"]) == ("0-1", 200, -200.0)
    assert listener.run.steps == 400


def test_a_copy_of_a_wrapped_env_goes_its_own_way(tmp_path: Path) -> None:
    import copy

    listener = Listener(tmp_path)
    env = listener.wrap(gym.make("CartPole-v1"))
    env.reset(seed=1)
    env.step(1)
    other = copy.deepcopy(env)
    for _ in range(5):
        other.step(0)
    env.step(1)
    assert [block["n"] for block in of_type(listener.lines(), "steps")] == [2]
