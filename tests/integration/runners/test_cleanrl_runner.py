"""The cleanrl runner: what cannot work is refused with the remedy, the rest goes through a worker."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from runspine.embedded import running_stack
from runspine.instrument.git_checkout import commit_of, version_of
from runspine.runners import NotReadyError
from runspine.services.worker.runners.cleanrl import LAUNCHER, CleanrlRunner
from runspine.services.worker.runners.cleanrl_check import records_video
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.cleanrl import STAND_IN
from tests.kit.client import PatientClient
from tests.kit.waiting import eventually

PARTS = {"nats", "s3", "orchestrator", "worker"}


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CleanrlRunner:
    monkeypatch.setenv("RUNSPINE_CLEANRL_DIR", str(STAND_IN))
    return CleanrlRunner()


def test_scripts_and_their_arguments_are_read_without_importing_anything_heavy(runner: CleanrlRunner) -> None:
    info: RunnerInfo = runner.info()
    algos = {algo.name: algo for algo in info.algos}
    assert {"tiny_reinforce", "tiny_critic_continuous", "tiny_needs_more"} <= set(algos)
    params = {param.name: param for param in algos["tiny_reinforce"].params}
    assert params["learning_rate"].default.number == 0.01
    assert params["num_envs"].help == "envs side by side"
    assert not {"env_id", "seed", "total_timesteps"} & set(params)
    assert info.not_ready == ""
    assert (info.videos, info.uses_gpu) == (True, True)


def test_fields_and_params_become_the_scripts_own_arguments(runner: CleanrlRunner, tmp_path: Path) -> None:
    spec = RunSpec(algo="tiny_reinforce", env="CartPole-v1", seed=7, total_steps=500)
    spec.params["cuda"].boolean = False
    spec.params["learning_rate"].number = 0.5
    launch = runner.launch(spec, tmp_path, sys.executable)
    assert launch.command[:4] == [sys.executable, str(LAUNCHER), "--path", str(STAND_IN)]
    assert launch.command[4] == str(STAND_IN / "cleanrl" / "tiny_reinforce.py")
    assert launch.command[5:] == (
        [
            "--seed",
            "7",
            "--env-id",
            "CartPole-v1",
            "--total-timesteps",
            "500",
            "--no-cuda",
            "--learning-rate",
            "0.5",
        ]
    )
    assert launch.directory == tmp_path
    # The stand-in is a folder of this repository and no checkout of its own.
    assert launch.versions["cleanrl"] == "no git checkout"
    assert {"torch", "gymnasium", "numpy"} <= set(launch.versions)


def test_the_commit_of_a_checkout_and_whether_it_was_changed_are_known(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert (commit_of(tmp_path), version_of(tmp_path)) == ("", "")
    git("init", "-q")
    (tmp_path / "ppo.py").write_text("1")
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    assert (commit_of(tmp_path), version_of(tmp_path)) == (commit, commit)
    (tmp_path / "ppo.py").write_text("2")
    assert version_of(tmp_path) == f"{commit} (changed)"
    # As a clone has it: the branch is in a file with all of them.
    git("pack-refs", "--all")
    assert commit_of(tmp_path) == commit
    git("checkout", "-q", "--detach")
    assert commit_of(tmp_path) == commit


def test_videos_of_the_scripts_evaluation_can_be_switched_off(runner: CleanrlRunner, tmp_path: Path) -> None:
    algos = {algo.name: {param.name: param for param in algo.params} for algo in runner.info().algos}
    assert algos["tiny_critic_continuous"]["eval_capture_video"].default.boolean
    assert "eval_capture_video" not in algos["tiny_reinforce"], "it evaluates nothing"
    spec = RunSpec(algo="tiny_critic_continuous", env="Pendulum-v1", total_steps=20)
    spec.params["save_model"].boolean = True
    assert records_video(spec)
    assert "RUNSPINE_EVAL_CAPTURE_VIDEO" not in runner.launch(spec, tmp_path, sys.executable).variables
    spec.params["eval_capture_video"].boolean = False
    launch = runner.launch(spec, tmp_path, sys.executable)
    assert launch.variables["RUNSPINE_EVAL_CAPTURE_VIDEO"] == "false"
    assert not [word for word in launch.command if "eval-capture" in word]
    assert not records_video(spec), "so that no package for videos is asked for"


def number(value: float) -> Value:
    return Value(number=value)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"algo": "tiny_reinforc"}, "Did you mean 'tiny_reinforce'"),
        (
            {"algo": "tiny_reinforce", "params": {"lerning_rate": number(1)}},
            "params.lerning_rate.*Did you mean 'learning_rate'",
        ),
        (
            {"algo": "tiny_reinforce", "params": {"seed": Value(integer=1)}},
            "params.seed: use the run's field seed",
        ),
        ({"algo": "tiny_reinforce", "env": "CartPol-v1"}, "CartPol-v1.*Here there are: CartPole-v1"),
        ({"algo": "tiny_reinforce", "env": "LunarLander-v2"}, "Here there are: LunarLander-v3"),
        ({"algo": "tiny_reinforce", "env": "Pendulum-v1"}, "takes discrete actions"),
        ({"algo": "tiny_critic_continuous", "env": "CartPole-v1"}, "takes continuous actions"),
        (
            {"algo": "tiny_needs_more"},
            "imports no_such_engine, no_such_jax.*-m pip install no_such_engine no_such_jax",
        ),
        (
            {"algo": "tiny_reinforce", "params": {"eval_capture_video": Value(boolean=False)}},
            "params.eval_capture_video: 'eval_capture_video'",
        ),
        ({"algo": "tiny_reinforce", "seed": 2**32}, "seed 4294967296 is too large"),
        (
            {"algo": "tiny_reinforce", "env": "CartPole-v1", "env_kwargs": {"x": Value(integer=1)}},
            "cannot be made.*unexpected keyword argument 'x'",
        ),
    ],
)
def test_a_launch_that_cannot_work_is_refused_with_the_remedy(
    runner: CleanrlRunner, tmp_path: Path, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(NotReadyError, match=why):
        runner.launch(RunSpec(**spec), tmp_path, sys.executable)


@pytest.mark.parametrize(
    ("folder", "why"),
    [("", "is not set: git clone"), ("/no/such/folder", "is no folder"), ("/", "has no folder cleanrl")],
)
def test_without_a_checkout_the_runner_explains_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, why: str
) -> None:
    monkeypatch.setenv("RUNSPINE_CLEANRL_DIR", folder)
    assert why in CleanrlRunner().info().not_ready
    assert "git clone https://github.com/vwxyzjn/cleanrl" in CleanrlRunner().info().not_ready
    with pytest.raises(NotReadyError, match=why):
        CleanrlRunner().launch(RunSpec(algo="ppo"), tmp_path, sys.executable)


def test_a_python_that_cannot_answer_is_named(runner: CleanrlRunner, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no brain >&2\nexit 3\n")
    broken.chmod(0o755)
    spec = RunSpec(algo="tiny_reinforce", env="CartPole-v1")
    with pytest.raises(NotReadyError, match=r"python cannot be probed: no brain"):
        runner.launch(spec, tmp_path, str(broken))


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_a_script_goes_through_a_worker_to_its_end_and_another_is_cancelled(tmp_path: Path) -> None:
    settings = {"RUNSPINE_CLEANRL_DIR": str(STAND_IN)}
    async with running_stack(tmp_path / "home", slots=2, only=PARTS, settings=settings) as stack:
        client = PatientClient(stack)
        spec = RunSpec(runner="cleanrl", algo="tiny_random_async", env="CartPole-v1", total_steps=600)
        short = (await client.call("Submit", wire.SubmitRequest(spec=spec))).run.id
        spec.total_steps = 60_000_000
        long = (await client.call("Submit", wire.SubmitRequest(spec=spec))).run.id
        await client.until_phase(short, COMPLETED, 120)
        done = await client.call("Get", wire.GetRequest(run_id=short))

        async def stepping() -> bool:
            got = await client.call("Get", wire.GetRequest(run_id=long))
            return bool(got.progress.counts.episodes)

        await eventually(stepping, 90)
        await client.call("Cancel", wire.CancelRequest(run_id=long, reason="enough"))
        await client.until_phase(long, CANCELLED, 60)
        folder = str((await client.call("Get", wire.GetRequest(run_id=long))).attempts[0].directory)
        assert still_in(folder) == []
    assert done.progress.counts.steps == 600
    assert done.progress.counts.malformed == 0
    assert done.progress.counts.episodes > 5
    (exited,) = [attempt.exited for attempt in done.attempts]
    assert (exited.exit_code, exited.signal) == (0, 0)
    assert [artifact.kind for artifact in done.attempts[0].artifacts] == ["tensorboard"]


def still_in(folder: str) -> list[int]:
    """Processes that work in this folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == folder and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found
