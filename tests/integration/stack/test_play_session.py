"""A play session as a process: keys become steps, actors change in mid-episode, all of it replays exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspine.play.fork import fork_point
from runspine.replay import EpisodeRecord, Replay
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from tests.kit.player import Game, actors_in, balancer, walker

RUN = "01JCZW9T3N5Q8R7V2K4M6P0XYB"
POLICY = "policy:" + "ab" * 32
AGENT = "bdi:" + "ef" * 32
LAKE = ("--env-id", "FrozenLake-v1", "--env-kwargs", '{"is_slippery": false}')


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return balancer(tmp_path / "dqn.cleanrl_model")


def test_a_person_plays_frozen_lake_key_by_key_and_the_episode_replays(tmp_path: Path) -> None:
    game = Game(tmp_path / "g", *LAKE)
    game.until(lambda: game.hud.get("waiting"))
    assert {hint["key"] for hint in game.hud["keys"]} == {"ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp"}
    for key in "DDRRDR":
        game.press({"D": "ArrowDown", "R": "ArrowRight"}[key])
    game.noticed("episode 0: return 1 in 6 steps")
    game.until(lambda: any(line["type"] == "episode" for line in game.lines))
    first, *_ = game.end()
    assert actors_in(first) == [("human", 6)]
    assert Replay(EpisodeRecord(first)).verdict.exact
    assert getattr(first.entry.episode, "return") == 1.0


def test_control_goes_to_a_policy_and_back_and_a_bad_one_changes_nothing(
    tmp_path: Path, checkpoint: Path
) -> None:
    game = Game(tmp_path / "g", "--env-id", "CartPole-v1", "--steps-per-second", 5)
    game.until(lambda: game.hud.get("waiting"))
    game.press("ArrowLeft")
    game.choose(POLICY, path=str(checkpoint))
    game.until(lambda: game.hud["actor"] == POLICY and game.hud["episode_step"] > 8)
    broken = tmp_path / "broken"
    broken.write_bytes(checkpoint.read_bytes()[:200])
    game.choose("policy:" + "cd" * 32, path=str(broken))
    notice = game.noticed("does not take over")
    assert f"policy {'ab' * 6} goes on: the checkpoint cannot be read" in notice
    reached = game.hud["episode_step"]
    game.until(lambda: game.hud["episode_step"] > reached + 5)
    assert game.hud["actor"] == POLICY
    game.choose("human")
    game.until(lambda: game.hud["actor"] == "human" and game.hud["waiting"])
    game.press("ArrowRight")
    game.until(lambda: any(line["type"] == "episode" for line in game.lines))
    first, *_ = game.end()
    who = actors_in(first)
    assert [name for name, _ in who] == ["human", POLICY, "human"]
    assert sum(steps for _, steps in who) == first.entry.episode.steps
    assert Replay(EpisodeRecord(first)).verdict.exact


def test_a_policy_of_another_env_is_refused_with_a_way_out(tmp_path: Path, checkpoint: Path) -> None:
    # Who waits for a key ends no episode, whose notice would replace this one between two frames.
    game = Game(tmp_path / "g", "--env-id", "FrozenLake-v1", "--actor", "human")
    game.until(lambda: game.hud.get("waiting"))
    game.choose(POLICY, path=str(checkpoint))
    assert "Choose a policy made in FrozenLake-v1" in game.noticed("does not fit FrozenLake-v1")
    assert game.hud["actor"] == "human"
    game.end()


def by_chance(folder: Path) -> GetEpisodeResponse:
    """An episode of CartPole that chance has played."""
    pace = ("--steps-per-second", 500, "--episodes", 1)
    game = Game(folder, "--env-id", "CartPole-v1", "--actor", "random", *pace)
    game.trainer.succeed()
    (original,) = game.end()
    return original


def forked(path: Path, original: GetEpisodeResponse, at: int) -> tuple[str, Path]:
    """The arguments of a session that begins there."""
    path.write_bytes(fork_point(RUN, original, at).SerializeToString())
    return "--fork", path


def test_a_fork_goes_on_from_the_very_step_and_its_first_steps_are_the_same(
    tmp_path: Path, checkpoint: Path
) -> None:
    original = by_chance(tmp_path / "a")
    at = int(original.entry.episode.steps) - 2
    fork = forked(tmp_path / "fork.point", original, at)
    actor = ("--actor", POLICY, "--checkpoint", checkpoint)
    pace = ("--steps-per-second", 1000, "--episodes", 1)
    other = Game(tmp_path / "b", "--env-id", "CartPole-v1", *fork, *actor, *pace)
    other.trainer.succeed()
    (forked_one,) = other.end()
    old, new = EpisodeRecord(original), EpisodeRecord(forked_one)
    assert new.length > at
    for step in range(at):
        assert old.step(step)._replace(observation=None) == new.step(step)._replace(observation=None)
        assert old.step(step).observation.tobytes() == new.step(step).observation.tobytes()
    assert actors_in(forked_one) == [(f"fork:{RUN}:0", at), (POLICY, new.length - at)]
    assert Replay(new).verdict.exact
    assert f"replayed exactly: {at} steps" in other.trainer.output


@pytest.mark.long
def test_a_fork_that_diverges_does_not_begin(tmp_path: Path) -> None:
    original = by_chance(tmp_path / "a")
    original.blocks[0].reward.data = bytes(len(original.blocks[0].reward.data))
    fork = forked(tmp_path / "fork.point", original, 5)
    other = Game(tmp_path / "b", "--env-id", "CartPole-v1", *fork, "--episodes", 1)
    assert other.trainer.wait() == 1
    assert "diverges on replay, so there is no such moment here" in other.trainer.output
    other.end()


@pytest.mark.long
def test_a_person_hands_over_to_a_bdi_agent_and_goes_on_when_its_plans_fail(tmp_path: Path) -> None:
    game = Game(tmp_path / "g", *LAKE, "--steps-per-second", 20)
    game.until(lambda: game.hud.get("waiting"))
    game.press("ArrowDown")
    broken = walker(tmp_path / "broken.npz", "!go. +!go <- .finish.")
    game.choose("bdi:" + "cd" * 32, path=str(broken))
    game.noticed("cannot go on, human does: its plans fail")
    assert game.hud["actor"] == "human"
    game.choose(AGENT, path=str(walker(tmp_path / "good.npz")))
    game.until(lambda: any(line["type"] == "episode" for line in game.lines))
    game.choose("human")
    first, *_ = game.end()
    assert actors_in(first) == [("human", 1), (AGENT, 5)]
    assert getattr(first.entry.episode, "return") == 1.0
    assert Replay(EpisodeRecord(first)).verdict.exact
    minds = [line for line in game.lines if line["type"] == "mind"]
    assert minds
    assert minds[0]["goals"] == ["live"]


def test_a_session_whose_only_actor_is_stuck_ends_and_reports_why(tmp_path: Path) -> None:
    plans = tmp_path / "plans.asl"
    plans.write_text("!go. +!go <- .begin; .act(17).")
    game = Game(tmp_path / "g", *LAKE, "--actor", "bdi", "--plans", plans, "--episodes", 1)
    assert game.trainer.wait() == 1
    assert "bdi cannot go on in FrozenLake-v1: its plans fail: plans:1: .act(17)" in game.trainer.output
    game.end()
