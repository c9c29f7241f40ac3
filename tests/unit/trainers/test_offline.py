"""The offline algorithms themselves: data, policies, resuming, schemas, scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from runspine.datasets.archive import unpack
from runspine.datasets.minari_folder import Transitions
from runspine.instrument.corl.checkout import CorlCheckout, CorlCheckoutError
from runspine.instrument.corl.readiness import readiness
from runspine.runners import NotReadyError
from runspine.services.orchestrator.core.spec_rules import violations
from runspine.services.worker.runners.corl import CorlRunner, unfit
from runspine.services.worker.runners.corl_scripts import arguments_for, scripts
from runspine.services.worker.runners.env_check import EnvSpaces, Space
from runspine.trainers.builtin.normalisation import ObservationScale
from runspine.trainers.evaluation.policy import load_policy
from runspine.trainers.offline.bc import Args, Learner
from runspine.trainers.offline.data import Data
from runspine.trainers.offline.training import OfflineTraining
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, RunSpec, Value
from tests.kit.paths import FIXTURES
from tests.kit.samples.pendulum import packed

STYLE = FIXTURES / "corl_style"
ENVIRONMENT = {"RUNSPINE_CORL_DIR": str(STYLE)}


def transitions(rewards: list[float], ends: list[int]) -> Transitions:
    count = len(rewards)
    rows = np.arange(count, dtype=np.float32)[:, None]
    timeouts = np.isin(np.arange(count), ends)
    return Transitions(rows, rows, np.asarray(rewards, np.float32), rows + 1, np.zeros(count, bool), timeouts)


def data_of(found: Transitions, room: int = 0) -> Data:
    return Data(found, ObservationScale(1, on=False), torch.device("cpu"), room)


def test_the_best_episodes_are_those_with_the_highest_returns() -> None:
    found = transitions([1, 1, 5, 5, 3, 3], ends=[1, 3, 5])
    data = data_of(found._replace(actions=found.rewards))
    data.keep_best(0.34)
    sample = data.sample(50, np.random.default_rng(1))
    assert data.size == 2
    assert set(sample.rewards.tolist()) == {5.0}


def test_even_the_smallest_share_leaves_an_episode() -> None:
    data = data_of(transitions([1, 2, 3], ends=[0, 1, 2]))
    data.keep_best(0.0)
    assert data.size == 1


def test_what_is_added_online_takes_turns_and_survives_a_checkpoint() -> None:
    found = transitions([0, 0], ends=[1])
    data = data_of(found, room=2)
    for reward in (7.0, 8.0, 9.0):
        row = np.zeros(1, np.float32)
        data.add(row, row, np.float32(reward), reward, ended=True)  # type: ignore[arg-type]
    again = data_of(found, room=2)
    again.load_state_dict(data.state_dict())
    for each in (data, again):
        drawn = each.sample(200, np.random.default_rng(3))
        assert set(drawn.rewards.tolist()) == {0.0, 8.0, 9.0}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("offline")
    packed(place / "made", place / "a.zip", 3)
    unpack(place / "a.zip", place / "dataset")
    return place / "dataset"


def test_a_checkpoint_plays_as_the_learner_did(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPINE_DATASET", str(dataset))
    monkeypatch.setenv("RUNSPINE_RUN_DIR", str(tmp_path))
    trial = OfflineTraining("bc", Args(total_timesteps=20, eval_every=20, eval_episodes=1))
    learner = Learner(trial.args, trial)
    learner.begin()
    for _ in range(20):
        learner.learn()
    trial.training.safe_point(20)
    env = gym.make("Pendulum-v1")
    policy = load_policy(tmp_path / "checkpoints" / "step-20.pt", env, "Pendulum-v1")
    assert policy.about.runner == "corl"
    seen, _ = env.reset(seed=3)
    for _ in range(50):
        ours = learner.act(trial.scale(np.asarray(seen, np.float32)[None]))
        np.testing.assert_allclose(policy.act(seen), ours, rtol=1e-5, atol=1e-6)
        seen, *_ = env.step(ours)


@pytest.mark.long
def test_a_training_that_is_resumed_ends_as_one_that_never_stopped(dataset: Path, tmp_path: Path) -> None:
    def train(folder: Path, **more: str) -> dict[str, torch.Tensor]:
        words = [
            "--total-timesteps",
            "60",
            "--eval-every",
            "30",
            "--eval-episodes",
            "1",
            "--checkpoint-every",
            "30",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "runspine.trainers.offline.bc", *words],
            env={**os.environ, "RUNSPINE_DATASET": str(dataset), "RUNSPINE_RUN_DIR": str(folder), **more},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        state = torch.load(folder / "checkpoints" / "step-60.pt", weights_only=True)
        weights: dict[str, torch.Tensor] = state["parts"]["actor"]
        return weights

    whole = train(tmp_path / "whole")
    middle = tmp_path / "whole" / "checkpoints" / "step-30.pt"
    again = train(tmp_path / "again", RUNSPINE_RESUME=str(middle), RUNSPINE_RESUME_KIND="resume")
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_without_a_dataset_an_algorithm_fails_and_prints_the_remedy(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if name != "RUNSPINE_DATASET"}
    done = subprocess.run(
        [sys.executable, "-m", "runspine.trainers.offline.iql", "--total-timesteps", "1"],
        env={**clean, "RUNSPINE_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "no dataset: name one in the run's field `dataset`" in done.stderr


def spaces(actions: Space, observations: str = "Box") -> EnvSpaces:
    return EnvSpaces(Space(observations, "Box(…)", True), actions)


def test_each_algorithm_declares_which_spaces_it_supports() -> None:
    discrete, box = Space("Discrete", "Discrete(2)", True), Space("Box", "Box(1,)", True)
    assert unfit("bc", "CartPole-v1", spaces(discrete)) == ""
    assert unfit("td3_bc", "CartPole-v1", spaces(discrete)).endswith("use bc")
    assert unfit("iql", "Pendulum-v1", spaces(box)) == ""
    assert "needs Box observations" in unfit("iql", "Taxi-v4", spaces(box, "Discrete"))
    assert "Dict space" in unfit("record", "X", spaces(box, "Dict"))


def info() -> RunnerInfo:
    return CorlRunner().info()


def test_the_runner_describes_its_algorithms_without_importing_torch() -> None:
    script = "import sys; from runspine.services.worker.runners.corl import CorlRunner; CorlRunner().info(); "
    check = "print([name for name in ('torch', 'gymnasium', 'h5py') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script + check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (RunSpec(algo="bc"), "spec.dataset"),
        (RunSpec(algo="record", dataset={"digest": "a" * 64}), "spec.dataset"),
        (RunSpec(algo="bc", dataset={"digest": "short"}), "spec.dataset.digest"),
        (RunSpec(algo="bc", dataset={"digest": "a" * 64, "name": "a b"}), "spec.dataset.name"),
        (RunSpec(algo="bc", mode=EVALUATE, dataset={"digest": "a" * 64}), "spec.dataset"),
    ],
)
def test_a_spec_with_a_wrong_dataset_field_is_refused(spec: RunSpec, field: str) -> None:
    spec.runner, spec.env = "corl", "Pendulum-v1"
    assert field in [each.field for each in violations(spec, {"corl": info()})]


def test_a_dataset_is_accepted_where_it_is_learnt_from() -> None:
    spec = RunSpec(runner="corl", algo="iql", env="Pendulum-v1", dataset={"digest": "a" * 64, "name": "x"})
    assert not violations(spec, {"corl": info()})


def test_scripts_of_a_checkout_are_offered_with_their_own_parameters() -> None:
    script = scripts(ENVIRONMENT)["corl-tiny_bc"]
    assert (script.field("env"), script.field("seed"), script.field("total_steps")) == (
        *("env", "seed"),
        "max_timesteps",
    )
    assert "batch_size" in {param.name for param in script.info().params}
    assert "env" not in {param.name for param in script.info().params}


def test_a_script_gets_its_own_words_and_no_gpu_that_was_not_asked_for() -> None:
    spec = RunSpec(algo="corl-tiny_bc", env="Pendulum-v1", seed=7, total_steps=9)
    spec.params["batch_size"].CopyFrom(Value(integer=3))
    words = arguments_for(scripts(ENVIRONMENT)["corl-tiny_bc"], spec, Path("/r"))
    received = dict(zip(words[::2], words[1::2], strict=True))
    assert received == {
        "--device": "cpu",
        "--checkpoints_path": "/r/checkpoints",
        "--env": "Pendulum-v1",
        "--seed": "7",
        "--max_timesteps": "9",
        "--batch_size": "3",
    }


def test_the_error_of_a_missing_checkout_explains_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(CorlCheckoutError, match="git clone"):
        CorlCheckout.find({})
    with pytest.raises(CorlCheckoutError, match="no folder algorithms"):
        CorlCheckout.find({"RUNSPINE_CORL_DIR": str(tmp_path)})
    assert readiness({}).level == "note"
    assert readiness({"RUNSPINE_CORL_DIR": str(tmp_path)}).level == "warn"
    assert readiness(ENVIRONMENT).level == "ok"


def test_the_error_of_an_algorithm_of_corl_itself_names_the_missing_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNSPINE_CORL_DIR", raising=False)
    with pytest.raises(NotReadyError, match="CORL's own scripts need a checkout"):
        CorlRunner().launch(RunSpec(algo="corl-cql", env="Pendulum-v1"), tmp_path, sys.executable)
