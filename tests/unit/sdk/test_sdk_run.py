"""The SDK towards the trainer: never in the way, whatever happens at the other end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from runspine.sdk.run import Run
from runspine.sdk.wrapping import wrapped
from tests.kit.environment import clean_environment
from tests.kit.samples.sdk import Listener, in_a_run, of_type, run_with, whole

TRAINER = """
import sys, gymnasium as gym, runspine
run = runspine.init({"lr": 0.1}, total_steps=100)
env = runspine.wrap(gym.make("CartPole-v1"))
env.reset(seed=run.seed)
for step in range(100):
    *_, terminated, truncated, _ = env.step(step % 2)
    if terminated or truncated: env.reset()
runspine.log({"loss": 1.0}, step=100)
"""


def test_importing_runspine_loads_nothing_heavy(tmp_path: Path) -> None:
    script = """
import sys, runspine
assert "numpy" not in sys.modules, "numpy"
run = runspine.init()
run.log({"a": 1}); runspine.log_episode(1.0, 10); runspine.checkpoint("x"); runspine.finish()
heavy = {"grpc", "nats", "google.protobuf", "torch", "gymnasium", "click", "minio"} & set(sys.modules)
assert not heavy, heavy
assert not run.active and run.dropped == 0
assert (run.seed, run.params, run.resume_path, run.total_steps) == (1, {}, None, None)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean_environment(), capture_output=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_outside_a_run_a_notice_is_printed_only_when_verbose(capfd: pytest.CaptureFixture[str]) -> None:
    Run({})
    assert capfd.readouterr().err == ""
    Run({"RUNSPINE_VERBOSE": "1"})
    assert capfd.readouterr().err == "runspine: not inside a run: nothing is recorded\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    import runspine

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = runspine.nonsense


def test_a_trainer_that_just_ends_has_written_everything(tmp_path: Path) -> None:
    lines = in_a_run(tmp_path, TRAINER)
    assert lines[0] == {
        "type": "config", "algo": "", "env_id": "", "seed": 1, "total_steps": 100, "args": {"lr": 0.1}
    }  # fmt: skip
    assert [line["type"] for line in lines[1:3]] == ["env", "reset"]
    env = lines[1]
    assert (env["env_id"], env["slot"], env["kwargs"]) == ("CartPole-v1", 0, {})
    assert env["versions"]["gymnasium"] == gym.__version__
    assert env["versions"]["numpy"] == np.__version__
    assert sum(block["n"] for block in of_type(lines, "steps")) == 100
    (metrics,) = of_type(lines, "metrics")
    assert (metrics["values"], metrics["step"]) == ({"loss": 1.0}, 100)


def test_what_the_worker_gives_is_there(tmp_path: Path) -> None:
    given = {
        "seed": "7",
        "env_id": "Pendulum-v1",
        "env_kwargs": '{"g": 9.0}',
        "algo": "sac",
        "total_steps": "500",
        "params": '{"lr": 0.5}',
        "resume": "/some/file",
        "resume_kind": "warm_start",
        "attempt": "2",
    }
    listener = Listener(tmp_path, **given)
    run = listener.run
    run.configure({"lr": 0.1, "tau": 1.0}, None)
    assert (run.seed, run.env_id, run.env_kwargs, run.algo) == (7, "Pendulum-v1", {"g": 9.0}, "sac")
    assert (run.total_steps, run.params, run.attempt) == (500, {"lr": 0.5, "tau": 1.0}, 2)
    assert (run.resume_path, run.resume_kind) == (Path("/some/file"), "warm_start")
    (config,) = listener.lines()
    assert (config["algo"], config["args"]) == ("sac", {"lr": 0.5, "tau": 1.0})


def test_a_checkpoint_is_never_ahead_of_the_steps(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    env = listener.wrap(gym.make("CartPole-v1"))
    env.reset(seed=1)
    for at in range(5):
        env.step(at % 2)
    (tmp_path / "model.pt").write_bytes(b"weights")
    listener.run.checkpoint(tmp_path / "model.pt", mean_return=2.5)
    env.step(1)
    lines = listener.lines()
    kinds = [line["type"] for line in lines]
    at = kinds.index("artifact")
    assert sum(line["n"] for line in lines[:at] if line["type"] == "steps") == 5
    emitted = lines[at]
    assert (emitted["kind"], emitted["path"], emitted["step"]) == ("checkpoint", "model.pt", 5)
    assert emitted["meta"] == {"mean_return": 2.5}


def test_a_file_from_elsewhere_is_brought_into_the_runs_directory(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (elsewhere / "plot.png").write_bytes(b"png")
    listener = Listener(home)
    listener.run.log_artifact(elsewhere / "plot.png", kind="image", name="curve")
    listener.run.log_artifact(elsewhere / "missing.png")
    (emitted,) = listener.lines()
    assert (home / emitted["path"]).read_bytes() == b"png"
    assert emitted["name"] == "curve"
    assert listener.run.dropped == 1


def test_values_that_are_no_numbers_are_left_out_and_counted(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    listener.run.log({"a": np.float32(0.5), "b": "text", "c": None, "d": float("nan")}, step=1)
    listener.run.log_episode(3.0, 4, terminated=True)
    metrics, episode = listener.lines()
    assert metrics["values"]["a"] == 0.5
    assert set(metrics["values"]) == {"a", "d"}
    assert listener.run.dropped == 2
    assert (episode["return"], episode["steps"], episode["terminated"]) == (3.0, 4, True)


def test_a_broken_pipe_does_not_reach_the_trainer(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    run = run_with(write, tmp_path)
    env = wrapped(run, gym.make("CartPole-v1"), None)
    env.reset(seed=1)
    for _ in range(3000):
        *_, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            env.reset()
    run.log({"a": 1.0})
    run.checkpoint("nowhere")
    run.finish()
    assert not run.active
    assert run.dropped > 0
    assert len(env.recorder.rewards) < 1000
    os.close(write)


def test_a_descriptor_that_is_not_there_makes_it_silent(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    run = run_with(write, tmp_path)
    run.log({"a": 1.0})
    assert not run.active
    assert run.dropped == 1


class Hostile(gym.Env[Any, Any]):
    """Gives an observation nobody can record."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    class Bomb:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("boom")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        if action == 1:
            raise KeyError("the env's own error")
        return (self.Bomb() if action == 2 else np.zeros(1)), 1.0, False, False, {}


def test_an_error_in_recording_ends_the_record_and_not_the_training(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    env = listener.wrap(Hostile())
    env.reset()
    env.step(0)
    for _ in range(2000):
        env.step(2)
    env.reset()
    assert listener.run.dropped == 1
    assert "boom" in env.recorder.failure
    assert not env.recorder.rewards
    with pytest.raises(RuntimeError, match="boom"):
        env.snapshot()
    assert sum(block["n"] for block in of_type(listener.lines(), "steps")) == 1


def test_an_error_of_the_env_is_the_trainers_and_leaves_the_columns_whole(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    env = listener.wrap(Hostile())
    env.reset()
    env.step(0)
    with pytest.raises(KeyError, match="own error"):
        env.step(1)
    env.step(0)
    lines = listener.lines()
    assert whole(lines, "0-0", "action").tolist() == [0, 0]


def test_rows_do_not_wait_for_long_while_the_env_is_slow(tmp_path: Path) -> None:
    listener = Listener(tmp_path)

    class Slow(Hostile):
        def step(self, action: Any) -> Any:
            time.sleep(0.02)
            return np.zeros(1), 1.0, False, False, {}

    env = listener.wrap(Slow())
    env.reset()
    slowest = 0.0
    for _ in range(40):
        began = time.monotonic()
        env.step(0)
        slowest = max(slowest, time.monotonic() - began)
    emitted = sum(len(chunk.split(b'"type":"steps"')) - 1 for chunk in listener._data)
    assert emitted >= 4
    blocks = of_type(listener.lines(), "steps")
    # The age of a block is checked at a step, so a slow step may add its own duration.
    assert max(block["t1"] - block["t0"] for block in blocks) < 0.3 + slowest
    assert sum(block["n"] for block in blocks) == 40


def test_a_block_after_a_flush_has_its_own_beginning(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    env = listener.wrap(gym.make("MountainCar-v0"))
    env.reset(seed=1)
    for at in range(100):
        env.step(0)
        if at % 30 == 0:
            time.sleep(0.01)
            listener.run.flush()
    blocks = of_type(listener.lines(), "steps")
    assert [block["global_step"] for block in blocks] == [block["first"] for block in blocks]
    ends = [-1.0, *(block["t1"] for block in blocks)]
    assert all(end <= block["t0"] <= block["t1"] for end, block in zip(ends, blocks, strict=False))


def test_several_envs_get_slots_and_ids_of_their_own(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    train, evaluate = (listener.wrap(gym.make("CartPole-v1")) for _ in range(2))
    same = listener.wrap(gym.make("CartPole-v1"), slot=0)
    for env in (train, evaluate, same):
        env.reset(seed=1)
        env.step(0)
    evaluate.close()
    again = listener.wrap(gym.make("CartPole-v1"))
    again.reset()
    ids = [emitted["episode_id"] for emitted in of_type(listener.lines(), "reset")]
    assert ids == ["0-0", "1-0", "0-1", "1-1"]
    assert listener.run.steps == 3


def test_metrics_in_dicts_have_names_with_slashes(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    losses = {"policy": 1.0, "value": {"first": 2, 2: 3.5}}
    listener.run.log({"losses": losses, "lr": 0.1, "empty": {}}, step=4)
    endless: dict[str, Any] = {"x": 1}
    endless["self"] = endless
    listener.run.log(endless, step=5)
    first, second = (line["values"] for line in of_type(listener.lines(), "metrics"))
    assert first == {"losses/policy": 1.0, "losses/value/first": 2.0, "losses/value/2": 3.5, "lr": 0.1}
    assert second == {"x": 1.0}
    assert "metric self" in str(listener.run._drops._kinds)
