"""Scripts in CleanRL's style, run as they are: what they do is recorded, and nothing they do changes."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import av
import pytest
import torch

from runspine import __version__
from runspine.checkpoints.inspection import inspect_checkpoint
from tests.kit.cleanrl import Scripted, config_of, play_again, run_script, stand_in
from tests.kit.paths import ROOT
from tests.kit.samples.sdk import of_type

STEPS = 600
# Processes that talk to each other at every step take long on a busy machine.
ASYNC_STEPS = 240


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    folder = tmp_path_factory.mktemp("launcher") / "reinforce"
    arguments = ("--total-timesteps", str(STEPS), "--seed", "5", "--track")
    done = stand_in(folder, "tiny_reinforce", *arguments)
    assert done.wait(150) == 0, done.output
    return done


def test_every_step_and_episode_is_recorded_as_the_script_counts_them(trained: Scripted) -> None:
    assert trained.steps == STEPS
    assert {line["slot"] for line in trained.training("steps")} == {0, 1}
    returns = Counter(line["return"] for line in trained.training("episode"))
    assert returns == Counter(value for _, value in trained.printed)
    assert Counter(trained.metric("charts/episodic_return")) == returns
    assert len(returns) > 3
    assert len(trained.metric("losses/policy_loss")) == STEPS // 100
    assert f"recorded {STEPS:,} steps" in trained.output
    assert "WARNING" not in trained.output


def test_every_episode_can_be_played_again_from_the_record_alone(trained: Scripted) -> None:
    assert play_again(trained.emitted) == len(trained.training("reset")) > 5


def test_arguments_texts_and_event_files_are_kept(trained: Scripted) -> None:
    config = config_of(trained.emitted)
    assert config["args"]["num_envs"] == 2
    assert config["args"]["seed"] == 5
    assert config["total_steps"] == STEPS
    (text,) = [line["text"] for line in of_type(trained.emitted, "config") if "text" in line]
    assert "num_steps=50" in text["hyperparameters"]
    (events,) = trained.artifacts("tensorboard")
    assert (trained.folder / events["path"]).stat().st_size > 0


def test_tracking_without_a_key_is_kept_in_the_run(trained: Scripted) -> None:
    (received,) = [line["wandb"] for line in of_type(trained.emitted, "config") if "wandb" in line]
    assert received["project"] == "tiny"
    assert config_of(trained.emitted)["args"]["env_id"] == "CartPole-v1"


def test_the_agent_of_a_script_that_saves_none_is_kept_as_a_checkpoint(trained: Scripted) -> None:
    (checkpoint,) = trained.artifacts("checkpoint")
    assert checkpoint["step"] == STEPS
    meta = checkpoint["meta"]
    assert (meta["algo"], meta["env"], meta["seed"]) == ("tiny_reinforce", "CartPole-v1", 5)
    assert meta["modules"] == {"agent": "Agent"}
    weights = torch.load(trained.folder / checkpoint["path"], weights_only=True)
    assert weights["actor.0.weight"].shape == (16, 4)


def test_the_script_does_the_same_whether_or_not_it_is_recorded(trained: Scripted, tmp_path: Path) -> None:
    alone = stand_in(
        tmp_path / "alone",
        "tiny_reinforce",
        *("--total-timesteps", str(STEPS), "--seed", "5"),
        recorded=False,
    )
    assert alone.wait(150) == 0, alone.output
    assert alone.printed == trained.printed
    assert alone.emitted == []
    # The checkout may be called so, and warnings name paths.
    assert "runspine" not in alone.output.replace(str(ROOT), "")
    assert {path.name for path in alone.folder.iterdir()} == {"output.txt", "runs", "telemetry.jsonl"}


@pytest.mark.long
def test_a_saved_model_is_evaluated_by_the_script_and_the_evaluation_ends(tmp_path: Path) -> None:
    done = stand_in(
        tmp_path / "critic",
        "tiny_critic_continuous",
        *("--total-timesteps", "250", "--save-model", "--eval-episodes", "1"),
    )
    assert done.wait(150) == 0, done.output
    assert done.steps == 250
    (value,) = [value for _, value in done.printed]
    (episode,) = done.training("episode")
    assert episode["return"] == pytest.approx(value)
    (checkpoint,) = done.artifacts("checkpoint")
    assert checkpoint["meta"]["saved_by"] == "script"
    assert checkpoint["step"] == 250
    (evaluation,) = of_type(done.emitted, "evaluation")
    assert evaluation["lengths"] == [200]
    assert evaluation["env_id"] == "Pendulum-v1"
    assert evaluation["returns"] == done.metric("eval/episodic_return")
    # Actions are clipped above the record, and the generator of the evaluation was never seeded.
    assert play_again(done.emitted) == 4
    (video,) = done.artifacts("video")
    with av.open(str(done.folder / video["path"])) as container:
        assert sum(1 for _ in container.decode(video=0)) >= 200


def test_videos_of_the_scripts_own_evaluation_are_left_out_when_they_are_not_wanted(tmp_path: Path) -> None:
    words = ("--total-timesteps", "20", "--save-model", "--eval-episodes", "1", "--capture-video")
    done = stand_in(
        tmp_path / "critic", "tiny_critic_continuous", *words, RUNSPINE_EVAL_CAPTURE_VIDEO="false"
    )
    assert done.wait(150) == 0, done.output
    (evaluation,) = of_type(done.emitted, "evaluation")
    assert evaluation["lengths"] == [200], "it is evaluated all the same"
    (video,) = done.artifacts("video")
    assert "-eval" not in video["path"], "that of the training stays"
    assert not list(done.folder.glob("videos/*-eval/*"))


def test_networks_are_kept_in_the_form_that_evaluation_reads(tmp_path: Path) -> None:
    done = stand_in(tmp_path / "critic", "tiny_critic_continuous", "--total-timesteps", "20")
    assert done.wait(150) == 0, done.output
    (checkpoint,) = done.artifacts("checkpoint")
    # Neither the target, nor the second name of the actor.
    assert list(checkpoint["meta"]["modules"]) == ["actor", "qf1"]
    actor, qf1 = torch.load(done.folder / checkpoint["path"], weights_only=True)
    assert set(actor) == {"mean.weight", "mean.bias"}
    assert set(qf1) == {"value.weight", "value.bias"}
    assert "no episode has ended" in done.output
    with pytest.raises(Exception, match="no adapter knows"):
        # It is read as what it is; the stand-in's layers are just nobody's.
        inspect_checkpoint(done.folder / checkpoint["path"])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_envs_in_processes_of_their_own_are_recorded_whole(tmp_path: Path, context: str) -> None:
    arguments = ("--context", context, "--num-envs", "2", "--total-timesteps", str(ASYNC_STEPS))
    done = stand_in(tmp_path / context, "tiny_random_async", *arguments)
    assert done.wait(220) == 0, done.output
    assert done.steps == ASYNC_STEPS
    assert {line["slot"] for line in done.training("steps")} == {0, 1}
    ids = [line["episode_id"] for line in done.training("reset")]
    assert len(ids) == len(set(ids))
    assert Counter(line["return"] for line in done.training("episode")) == Counter(
        value for _, value in done.printed
    )
    assert Counter(done.metric("charts/episodic_return")) == Counter(value for _, value in done.printed)
    assert play_again(done.emitted) == len(ids)
    assert f"recorded {ASYNC_STEPS:,} steps" in done.output
    assert not list(done.folder.glob(".launcher*"))


@pytest.mark.timeout(240)
def test_returns_that_the_script_does_not_report_are_reported_for_it(tmp_path: Path) -> None:
    # Nor does it close its envs: their processes are killed at its end.
    arguments = ("--no-report", "--no-close", "--num-envs", "2", "--total-timesteps", str(ASYNC_STEPS))
    done = stand_in(tmp_path / "silent", "tiny_random_async", *arguments)
    assert done.wait(220) == 0, done.output
    assert done.steps == ASYNC_STEPS
    assert not done.printed
    ended = Counter(line["return"] for line in done.training("episode"))
    received = Counter(done.metric("charts/episodic_return"))
    assert received <= ended
    # Each process may still have waited for the script to report its last two or three.
    assert sum((ended - received).values()) <= 2 * 2
    assert received


def test_a_script_asked_to_stop_leaves_its_last_steps_and_its_agent(tmp_path: Path) -> None:
    running = stand_in(tmp_path / "long", "tiny_reinforce", "--total-timesteps", "10000000", "--nap", "0.05")
    running.until(lambda: len(running.printed) > 5, 150)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait(60) == 143, running.output
    assert "Traceback" not in running.output
    (checkpoint,) = running.artifacts("checkpoint")
    # The script counts before it steps both envs, and may have been stopped between them.
    assert 0 <= checkpoint["step"] - running.steps <= 2
    assert running.steps >= max(step for step, _ in running.printed)
    assert torch.load(running.folder / checkpoint["path"], weights_only=True)


def test_an_error_of_the_script_is_its_own(tmp_path: Path) -> None:
    done = stand_in(tmp_path / "wrong", "tiny_random_async", "--env-id", "CartPol-v1")
    assert done.wait(150) == 1
    assert "CartPol" in done.output
    assert "runspine/instrument/program.py" not in done.output


PLAIN = """
import gymnasium as gym

def walk(env, steps):
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(steps):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()

def eval_policy():
    walk(gym.make("CartPole-v1"), 40)

walk(gym.make("FrozenLake-v1", render_mode="rgb_array"), 50)
eval_policy()
envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
envs.reset(seed=1)
for _ in range(30):
    envs.step(envs.action_space.sample())
"""


def test_envs_outside_of_vector_envs_get_the_runs_arguments_and_slots_of_their_own(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(PLAIN)
    asked = {"RUNSPINE_ENV_ID": "FrozenLake-v1", "RUNSPINE_ENV_KWARGS": '{"is_slippery": false}'}
    done = run_script(tmp_path / "plain", script, **asked)  # type: ignore[arg-type]
    assert done.wait(150) == 0, done.output
    made = {line["slot"]: line for line in of_type(done.emitted, "env")}
    assert made[0]["kwargs"]["is_slippery"] is False
    assert made[0]["kwargs"]["render_mode"] == "rgb_array"
    steps = Counter({"train": 0, "evaluate": 0})
    for line in of_type(done.emitted, "steps"):
        steps["evaluate" if line["episode_id"].startswith("eval-") else "train"] += line["n"]
    # The first row of an episode of one big array is its reset, not a step.
    assert steps["evaluate"] == 40
    assert 50 + 2 * 30 - 10 < steps["train"] <= 50 + 2 * 30
    assert f"recorded {steps['train']} steps" in done.output
    assert "own evaluation 40 steps" in done.output


FRAMES = """
import dataclasses, warnings
import gymnasium as gym
import torch
from torch.utils.tensorboard import SummaryWriter

@dataclasses.dataclass
class Args:
    total_timesteps: int = 40

class Repeat(gym.Wrapper):
    def step(self, action):
        for _ in range(4):
            result = self.env.step(action)
            if result[2] or result[3]:
                break
        return result

args = Args()
annotated = "is annotated with type `<class 'float'>`, but the default value `None` has type `NoneType`."
warnings.warn(f"The field `target-kl` {annotated}")
warnings.warn("another warning")
writer = SummaryWriter("runs/frames")
env = Repeat(gym.make("CartPole-v1", render_mode="rgb_array"))
env = gym.wrappers.RecordVideo(env, "videos/frames", episode_trigger=lambda episode: episode == 1)
env.reset(seed=1)
env.action_space.seed(1)
global_step = 0
for _ in range(args.total_timesteps):
    global_step += 1
    *_, terminated, truncated, _ = env.step(env.action_space.sample())
    writer.add_histogram("weights", torch.arange(101), global_step)
    if terminated or truncated:
        env.reset()
env.close()
"""


def test_frames_of_an_emulator_are_recorded_and_progress_is_the_scripts_own(tmp_path: Path) -> None:
    script = tmp_path / "frames.py"
    script.write_text(FRAMES)
    done = run_script(tmp_path / "frames", script, RUNSPINE_PROTOCOL="1")
    assert done.wait(150) == 0, done.output
    assert done.emitted[0] == {"type": "hello", "protocol": 1, "writer": f"runspine {__version__}"}
    assert done.steps > 2 * 40
    reports = [(line["step"], line["total"]) for line in of_type(done.emitted, "progress")]
    assert reports[-1] == (40, 40)
    assert max(step for step, _ in reports) == 40
    # Tyro's warnings about CleanRL's arguments are not part of a run; others are.
    assert "another warning" in done.output
    assert "target-kl" not in done.output
    # Its clip names the episode that it shows.
    (clip,) = done.artifacts("video")
    (filmed,) = [line for line in done.training("episode") if line["episode_id"] == "0-1"]
    assert clip["meta"]["episode_id"] == "0-1"
    assert (clip["meta"]["return"], clip["meta"]["length"]) == (filmed["return"], filmed["steps"])
    # A histogram is its quantiles.
    middle = done.metric("histograms/weights/p50")
    assert (len(middle), middle[0], done.metric("histograms/weights/p95")[0]) == (40, 50.0, 95.0)
    assert done.metric("histograms/weights/count")[0] == 101.0
