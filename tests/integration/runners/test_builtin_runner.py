"""The built-in algorithms as processes: exact resume, stopping, warm start, and what is refused."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import tyro

import runspine
from runspine.runners import NotReadyError, installed_runners
from runspine.services.worker.runners.builtin import NAMES, BuiltinRunner
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.training import Trainer, start

RUNS = {
    "ppo": ["--total-timesteps", "8192", "--checkpoint-every", "1024"],
    "ppo continuous": [
        *("--env-id", "Pendulum-v1", "--total-timesteps", "8192", "--checkpoint-every", "1024"),
        *("--num-steps", "64"),
    ],
    "dqn": [
        *("--total-timesteps", "4500", "--checkpoint-every", "350", "--learning-starts", "250"),
        *("--buffer-size", "750", "--batch-size", "32"),
    ],
    "sac": [
        *("--total-timesteps", "500", "--checkpoint-every", "40", "--learning-starts", "60"),
        *("--batch-size", "32", "--buffer-size", "500"),
    ],
    "qlearning": ["--total-timesteps", "60000", "--checkpoint-every", "5000"],
}


def train(folder: Path, run: str, **how: Any) -> Trainer:
    command = [f"runspine.trainers.builtin.{run.split()[0]}", "--seed", "3", *RUNS[run]]
    return start(folder, [*command, *how.pop("more", [])], **how)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trainer]:
    """An undisturbed training, one of each kind."""
    folder = tmp_path_factory.mktemp("calm")
    return cache(lambda run: train(folder / run.replace(" ", "-"), run).succeed())


def content(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Places where two states are not bit for bit the same."""
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()
        return [] if same else [where]
    if isinstance(one, dict):
        keys = sorted({*one, *other}, key=str)
        # How often this process has reset its env is no part of where the env stands.
        keys = [key for key in keys if key != "ordinal"]
        return [d for k in keys for d in differences(one.get(k), other.get(k), f"{where}/{k}")]
    if isinstance(one, list):
        pairs = zip(one, other, strict=True)
        return [d for n, (a, b) in enumerate(pairs) for d in differences(a, b, f"{where}/{n}")]
    return [] if one == other else [f"{where}: {one!r} and {other!r}"]


# PPO is killed and resumed in tests/chaos/test_exact_resume.py, by real workers.
@pytest.mark.parametrize(
    "run", [run if run == "qlearning" else pytest.param(run, marks=pytest.mark.long) for run in RUNS]
)
def test_a_killed_training_resumed_ends_bit_for_bit_as_if_undisturbed(
    tmp_path: Path, calm: Callable[[str], Trainer], run: str
) -> None:
    killed = train(tmp_path / "killed", run)
    killed.until(lambda: len(killed.checkpoints) >= 3)
    killed.process.kill()
    killed.wait()
    checkpoint = killed.checkpoints[-1]
    step = content(checkpoint)["step"]
    resumed = train(tmp_path / "resumed", run, resume=checkpoint).succeed()
    one, other = content(calm(run).checkpoints[-1]), content(resumed.checkpoints[-1])
    assert step < one["step"]
    assert differences(one["parts"], other["parts"]) == []
    later = calm(run).returns(after=step)
    assert later
    assert resumed.returns() == later
    assert f"resumed at step {step:,}" in resumed.output


@pytest.mark.long
def test_a_training_asked_to_stop_saves_reports_it_and_can_be_resumed(
    tmp_path: Path, calm: Callable[[str], Trainer]
) -> None:
    run = "ppo"
    stopped = train(tmp_path / "stopped", run, more=["--checkpoint-every", "100000"])
    stopped.until(lambda: len(stopped.returns()) > 3)
    stopped.process.send_signal(signal.SIGTERM)
    assert stopped.wait(60) == 143
    (checkpoint,) = stopped.checkpoints
    assert "SIGTERM at step" in stopped.output
    assert str(checkpoint) in stopped.output
    announced = [line for line in stopped.emitted if line["type"] == "artifact"]
    assert [line["path"] for line in announced] == [f"checkpoints/{checkpoint.name}"]
    resumed = train(tmp_path / "resumed", run, resume=checkpoint).succeed()
    one, other = content(calm(run).checkpoints[-1]), content(resumed.checkpoints[-1])
    assert differences(one["parts"], other["parts"]) == []


def test_a_stop_takes_effect_within_a_rollout_of_any_length(tmp_path: Path) -> None:
    long = ["--num-steps", "300000", "--total-timesteps", "1200000"]
    stopped = train(tmp_path / "stopped", "ppo", more=long)
    stopped.until(lambda: len(stopped.returns()) > 5)
    stopped.process.send_signal(signal.SIGTERM)
    assert stopped.wait(60) == 143
    (checkpoint,) = stopped.checkpoints
    state = content(checkpoint)
    assert 0 < state["parts"]["rollout"]["filled"] == state["step"] // 4


def test_a_finished_training_reports_steps_episodes_metrics_checkpoints_and_a_summary(
    calm: Callable[[str], Trainer],
) -> None:
    done = calm("ppo")
    kinds = {line["type"] for line in done.emitted}
    assert {"config", "env", "reset", "steps", "episode", "metrics", "artifact"} <= kinds
    steps = sum(line["n"] for line in done.emitted if line["type"] == "steps")
    assert steps == 8192
    names = {name for line in done.emitted if line["type"] == "metrics" for name in line["values"]}
    assert names >= {
        *("charts/episodic_return", "charts/episodic_length", "charts/SPS", "charts/learning_rate"),
        *("losses/value_loss", "losses/policy_loss", "losses/entropy", "losses/approx_kl"),
    }
    episodes = [line for line in done.emitted if line["type"] == "episode"]
    assert [line["return"] for line in episodes] == [value for _, value in done.returns()]
    saved = [line["step"] for line in done.emitted if line["type"] == "artifact"]
    assert saved == list(range(1024, 8193, 1024))
    summary = json.loads((done.folder / "summary.json").read_text())
    assert summary["steps"] == 8192
    assert summary["episodes"] == len(episodes)
    assert "█" in done.output
    assert "steps/s" in done.output


@pytest.mark.long
def test_a_warm_start_takes_the_weights_alone_and_begins_at_the_beginning(
    tmp_path: Path, calm: Callable[[str], Trainer]
) -> None:
    source = calm("ppo continuous").checkpoints[-1]
    more = ["--learning-rate", "0.0", "--total-timesteps", "256"]
    warm = train(tmp_path / "warm", "ppo continuous", resume=source, kind="warm_start", more=more).succeed()
    old, new = content(source)["parts"], content(warm.checkpoints[-1])["parts"]
    assert content(warm.checkpoints[-1])["step"] == 256
    assert differences(old["agent"], new["agent"]) == []
    assert new["observations"]["count"] > old["observations"]["count"]
    assert new["history"]["episodes"] < old["history"]["episodes"]


@pytest.mark.parametrize(
    ("run", "more", "kind", "why"),
    [
        ("ppo", ["--gamma", "0.5"], "resume", "gamma 0.99 → 0.5"),
        pytest.param("dqn", [], "resume", "its algorithm ppo, this run's dqn", marks=pytest.mark.long),
        pytest.param(
            "ppo",
            ["--env-id", "Acrobot-v1"],
            "warm_start",
            "its env CartPole-v1, this run's Acrobot-v1",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_with_the_reason(
    tmp_path: Path, calm: Callable[[str], Trainer], run: str, more: list[str], kind: str, why: str
) -> None:
    source = calm("ppo").checkpoints[-1]
    other = train(tmp_path / "other", run, resume=source, kind=kind, more=more)
    assert other.wait() == 1
    assert why in other.output
    assert "Traceback" not in other.output


def test_an_invalid_option_ends_the_trainer_with_one_line_that_explains_it(tmp_path: Path) -> None:
    tried = start(tmp_path / "tried", ["runspine.trainers.builtin.ppo", "--gamma", "2"])
    assert tried.wait() == 1
    assert tried.output == "--gamma: 2.0 is out of range: at most 1\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_gpu_that_is_required_is_named(tmp_path: Path) -> None:
    tried = start(tmp_path / "tried", ["runspine.trainers.builtin.ppo", "--require-cuda"])
    assert tried.wait() == 1
    assert "no CUDA device is available" in tried.output.splitlines()[-1]


def test_an_algorithm_explains_itself_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runspine.trainers.builtin.ppo", "--help"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "--total-timesteps" in done.stdout
    assert "environment steps of the whole run" in done.stdout


def test_outside_a_run_it_trains_into_a_folder_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runspine.trainers.builtin.qlearning", "--total-timesteps", "2000"],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (home,) = (tmp_path / "runs").iterdir()
    assert home.name.startswith("FrozenLake-v1__qlearning__1__")
    assert (home / "checkpoints" / "step-2000.pt").exists()


def launch(tmp_path: Path, **spec: Any) -> list[str]:
    return BuiltinRunner().launch(RunSpec(**spec), tmp_path, sys.executable).command


@pytest.mark.parametrize(
    ("algo", "env", "why"),
    [
        ("ppo", "CartPol-v1", "Did you mean 'CartPole-v1'"),
        ("ppo", "LunarLander-v2", "Did you mean 'LunarLander-v3'"),
        ("ppo", "no_such_module:Thing-v0", "no_such_module"),
        ("ppo", "", "env is missing"),
        ("dqn", "Pendulum-v1", "dqn needs discrete actions.*use ppo or sac"),
        ("sac", "CartPole-v1", "sac needs continuous, bounded actions.*use ppo or dqn"),
        ("qlearning", "CartPole-v1", "qlearning needs discrete observations"),
        ("pp", "CartPole-v1", "Did you mean 'ppo'"),
    ],
)
def test_a_launch_that_cannot_work_is_refused_with_the_reason(
    tmp_path: Path, algo: str, env: str, why: str
) -> None:
    with pytest.raises(NotReadyError, match=why):
        launch(tmp_path, algo=algo, env=env)


def test_an_env_whose_arguments_are_wrong_is_refused_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(NotReadyError, match="no_such"):
        launch(tmp_path, algo="ppo", env="CartPole-v1", env_kwargs={"no_such": Value(integer=1)})


def test_a_python_without_the_packages_is_refused_with_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    spec = RunSpec(algo="ppo", env="CartPole-v1")
    with pytest.raises(NotReadyError, match=r"pip install 'runspine\[builtin\]'"):
        BuiltinRunner().launch(spec, tmp_path, str(bare / "bin" / "python"))


def test_the_command_is_complete_and_is_what_the_algorithm_takes(tmp_path: Path) -> None:
    params = {
        "learning_starts": Value(integer=10),
        "gamma": Value(number=0.5),
        "torch_deterministic": Value(boolean=False),
    }
    command = launch(
        tmp_path,
        algo="dqn",
        env="FrozenLake-v1",
        env_kwargs={"is_slippery": Value(boolean=False)},
        seed=9,
        total_steps=300,
        params=params,
    )
    assert command[1:] == [
        *("-m", "runspine.trainers.builtin.dqn", "--env-id", "FrozenLake-v1"),
        *("--env-kwargs", '{"is_slippery": false}', "--seed", "9", "--total-timesteps", "300"),
        *("--gamma", "0.5", "--learning-starts", "10", "--no-torch-deterministic"),
    ]
    done = start(tmp_path / "run", command[2:]).succeed()
    config = next(line for line in done.emitted if line["type"] == "config")["args"]
    assert (config["gamma"], config["learning_starts"], config["torch_deterministic"]) == (0.5, 10, False)


def test_a_launch_reports_the_versions_of_its_python(tmp_path: Path) -> None:
    spec = RunSpec(algo="qlearning", env="FrozenLake-v1")
    versions = BuiltinRunner().launch(spec, tmp_path, sys.executable).versions
    assert versions["runspine"] == runspine.__version__
    assert versions["torch"] == torch.__version__.partition("+")[0] or versions["torch"] == torch.__version__
    assert {"gymnasium", "numpy"} <= set(versions)


@pytest.mark.parametrize("algo", NAMES)
def test_every_parameter_of_the_schema_is_taken_by_the_command_line(tmp_path: Path, algo: str) -> None:
    info = next(found for found in BuiltinRunner().info().algos if found.name == algo)
    params = {param.name: param.default for param in info.params if param.HasField("default")}
    env = {"sac": "Pendulum-v1", "qlearning": "FrozenLake-v1"}.get(algo, "CartPole-v1")
    command = launch(tmp_path, algo=algo, env=env, total_steps=600, params=params)
    args = importlib.import_module(f"runspine.trainers.builtin.{algo}").Args
    assert tyro.cli(args, args=command[3:]) == args(env_id=env, total_timesteps=600)


def test_both_runners_are_registered_and_ready() -> None:
    runners = installed_runners()
    for name in ("builtin", "sb3"):
        info = runners[name].info()
        assert (info.name, info.resumes, info.warm_starts, info.not_ready) == (name, True, True, "")
