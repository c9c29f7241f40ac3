"""Stable-Baselines3 as a runner: trains, reports, stops, resumes, and reads no pickled code."""

from __future__ import annotations

import inspect
import json
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import PPO

from runspine.runners import NotReadyError
from runspine.services.worker.runners.sb3 import Sb3Runner
from runspine.spec.plain import plain_value
from runspine.trainers.sb3.parameters import ALGORITHMS, OURS, algo_info
from runspine.trainers.sb3.train import CLASSES, translated
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.training import Trainer, start

# A default of ours on purpose: without noise these two never explore.
MEANT = {("td3", "action_noise_std"), ("ddpg", "action_noise_std")}


def train(folder: Path, algo: str, steps: int, env: str = "CartPole-v1", **how: Any) -> Trainer:
    params = {name: _value(value) for name, value in how.pop("params", {}).items()}
    spec = RunSpec(algo=algo, env=env, seed=3, total_steps=steps, params=params)
    launch = Sb3Runner().launch(spec, folder, sys.executable)
    return start(folder, launch.command[2:], **how)


def _value(plain: Any) -> Value:
    if isinstance(plain, list):
        value = Value()
        for item in plain:
            value.list.items.add().CopyFrom(_value(item))
        return value
    return Value(**{{bool: "boolean", int: "integer", float: "number"}[type(plain)]: plain})


def about(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        found: dict[str, Any] = json.loads(archive.read("runspine.json"))
    return found


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_schema_is_what_the_library_takes_with_its_own_defaults(algo: str) -> None:
    theirs = inspect.signature(CLASSES[algo].__init__).parameters
    for param in algo_info(algo).params:
        assert param.help
        if param.name in OURS:
            continue
        ours = plain_value(param.default) if param.HasField("default") else None
        assert theirs[param.name].default == ours, param.name


def test_a_run_reports_steps_episodes_metrics_and_checkpoints(tmp_path: Path) -> None:
    params = {"n_envs": 2, "n_steps": 128, "net_arch": [16], "checkpoint_every": 512}
    done = train(tmp_path / "ppo", "ppo", 1536, params=params).succeed()
    steps = [line for line in done.emitted if line["type"] == "steps"]
    assert sum(line["n"] for line in steps) == 1536
    assert {line["slot"] for line in steps} == {0, 1}
    episodes = [line["return"] for line in done.emitted if line["type"] == "episode"]
    assert sorted(value for _, value in done.returns()) == sorted(episodes)
    names = {name for line in done.emitted if line["type"] == "metrics" for name in line["values"]}
    assert names >= {"losses/value_loss", "losses/policy_loss", "losses/entropy", "charts/SPS"}
    assert not [name for name in names if name.startswith(("rollout/", "time/"))]
    assert [path.name for path in done.checkpoints] == ["step-512.zip", "step-1024.zip", "step-1536.zip"]
    assert "last" in done.output
    # The library's own loader reads it, too; the sizes asked for were used.
    assert PPO.load(done.checkpoints[-1]).policy.mlp_extractor.policy_net[0].out_features == 16


@pytest.mark.long
def test_an_off_policy_run_resumes_with_its_buffer_and_counters(tmp_path: Path) -> None:
    params = {"buffer_size": 400, "learning_starts": 50, "batch_size": 16, "checkpoint_every": 100}
    first = train(tmp_path / "first", "sac", 300, "Pendulum-v1", params=params).succeed()
    checkpoint = first.checkpoints[-1]
    assert about(checkpoint)["counters"]["position"] == 300
    resumed = train(tmp_path / "resumed", "sac", 450, "Pendulum-v1", params=params, resume=checkpoint)
    resumed.succeed()
    assert "resumed at step 300" in resumed.output
    assert "not bit for bit" in resumed.output
    end = about(resumed.checkpoints[-1])
    assert end["counters"]["num_timesteps"] == 450
    assert end["counters"]["full"]  # 300 of before and 150 of now are more than 400
    assert end["counters"]["_n_updates"] > about(checkpoint)["counters"]["_n_updates"]
    assert end["history"]["episodes"] == 1  # of before; the new one has not ended
    assert sum(line["n"] for line in resumed.emitted if line["type"] == "steps") == 150


def test_a_run_asked_to_stop_saves_and_reports_it(tmp_path: Path) -> None:
    running = train(tmp_path / "dqn", "dqn", 500_000, params={"checkpoint_every": 400_000})
    running.until(lambda: len(running.returns()) > 5)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait(15) == 143
    (checkpoint,) = running.checkpoints
    assert str(checkpoint) in running.output
    assert [line["kind"] for line in running.emitted if line["type"] == "artifact"] == ["checkpoint"]


@pytest.mark.long
def test_a_warm_start_takes_the_networks_and_begins_at_the_beginning(tmp_path: Path) -> None:
    small: dict[str, Any] = {"n_steps": 64}
    first = train(tmp_path / "first", "ppo", 128, params=small).succeed()
    still = {**small, "learning_rate": 0.0}
    source = first.checkpoints[-1]
    warm = train(tmp_path / "warm", "ppo", 64, params=still, resume=source, kind="warm_start").succeed()
    one, other = (PPO.load(run.checkpoints[-1]).policy.state_dict() for run in (first, warm))
    assert all((one[name] == other[name]).all() for name in one)
    assert about(warm.checkpoints[-1])["counters"]["num_timesteps"] == 64
    misfit = train(tmp_path / "misfit", "ppo", 64, "Acrobot-v1", params=small, resume=source)
    assert misfit.wait() == 1
    assert "its env CartPole-v1, this run's Acrobot-v1" in misfit.output


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"algo": "dqn", "env": "Pendulum-v1", "total_steps": 1}, "dqn needs discrete actions"),
        ({"algo": "td3", "env": "CartPole-v1", "total_steps": 1}, "td3 needs continuous"),
        ({"algo": "ppo", "env": "Blackjack-v1", "total_steps": 1}, "does not take the observations"),
        ({"algo": "ppo", "env": "CartPol-v1", "total_steps": 1}, "Did you mean 'CartPole-v1'"),
        ({"algo": "trpo", "env": "CartPole-v1", "total_steps": 1}, "is not one of"),
        ({"algo": "ppo", "env": "CartPole-v1"}, "total_steps is missing"),
    ],
)
def test_a_launch_that_cannot_work_is_refused_with_the_reason(
    tmp_path: Path, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(NotReadyError, match=why):
        Sb3Runner().launch(RunSpec(**spec), tmp_path, sys.executable)


def test_values_get_cleanrls_names_only_where_they_mean_the_same() -> None:
    received = translated("ppo", {"train/entropy_loss": -0.7, "train/std": 1.0, "time/fps": 9, "x": "text"})
    assert received == {"losses/entropy": 0.7, "train/std": 1.0, "charts/SPS": 9.0}
    assert translated("dqn", {"train/loss": 2.0}) == {"losses/td_loss": 2.0}
    assert translated("sac", {"train/critic_loss": 2.0}) == {"losses/qf_loss": 2.0}
    assert translated("td3", {"train/critic_loss": 2.0}) == {"train/critic_loss": 2.0}


def test_only_the_noise_differs_from_the_librarys_defaults() -> None:
    noisy = {
        (algo, name) for algo, (_, own) in ALGORITHMS.items() for name in own if name == "action_noise_std"
    }
    assert noisy == MEANT
