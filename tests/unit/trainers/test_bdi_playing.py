"""A BDI agent in somebody else's env: one action for each observation, and what its plans make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from runspine.trainers.bdi import actor
from runspine.trainers.bdi.actor import AgentStuckError, BdiActor
from runspine.trainers.bdi.program import PlansError
from runspine.trainers.bdi.world import AgentEnvError
from runspine.trainers.builtin.checkpoints import CheckpointUnusableError
from runspine.trainers.play.actors import NoActorError, agent
from tests.kit.player import LEARNER, WAY, walker
from tests.kit.samples.sdk import Listener


def lake() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", is_slippery=False)


@pytest.fixture
def received(tmp_path: Path) -> Listener:
    return Listener(tmp_path)


def made(received: Listener, path: Path | None = None, plan_text: str = "") -> BdiActor:
    return BdiActor(lake(), "FrozenLake-v1", 1, received.run, path, plan_text)


def walk(who: BdiActor, env: gymnasium.Env[Any, Any], most: int = 100) -> tuple[list[int], float]:
    seen, _ = env.reset(seed=1)
    who.began()
    actions: list[int] = []
    while len(actions) < most:
        actions.append(who.act(seen))
        seen, reward, terminated, truncated, _ = env.step(actions[-1])
        who.came(seen, float(reward), terminated, truncated)
        if terminated or truncated:
            return actions, float(reward)
    return actions, 0.0


def test_an_agent_takes_the_way_of_its_table_in_episode_after_episode(
    tmp_path: Path, received: Listener
) -> None:
    env = received.wrap(lake())
    who = made(received, walker(tmp_path / "a.npz"))
    for _ in range(3):
        assert walk(who, env) == (list(WAY.values()), 1.0)
    assert "episode(3)" in who.program.mind.seen()["beliefs"]
    assert who.world.history.episodes == 2, "the last one is looked back on when the next begins"


def test_its_mind_is_on_record_with_what_it_believes_and_how_sure_it_is(
    tmp_path: Path, received: Listener
) -> None:
    who = made(received, walker(tmp_path / "a.npz"))
    who.world.args.mind_seconds = 0.0
    walk(who, received.wrap(lake()))
    minds = [line for line in received.lines() if line["type"] == "mind"]
    assert [mind["step"] for mind in minds] == [1, 2, 3, 4, 5, 6]
    assert {"state(4)", "did(1)"} <= set(minds[0]["beliefs"])
    assert minds[0]["intentions"] == ["live > exploit"]
    assert minds[0]["confidence"] == 0.75


def test_an_episode_that_was_given_up_begins_again(tmp_path: Path, received: Listener) -> None:
    env = received.wrap(lake())
    who = made(received, walker(tmp_path / "a.npz"))
    walk(who, env, most=3)
    assert walk(who, env) == (list(WAY.values()), 1.0)


def test_one_that_takes_over_in_mid_episode_goes_on_from_there(tmp_path: Path, received: Listener) -> None:
    env = lake()
    env.reset(seed=1)
    seen = env.step(1)[0]
    assert made(received, walker(tmp_path / "a.npz")).act(seen) == WAY[4]


def test_plans_of_ones_own_need_no_checkpoint(received: Listener) -> None:
    plans = "!go. +!go <- .begin; !!walk. +!walk : over <- !!go. +!walk <- .act(2); !!walk."
    who = made(received, plan_text=plans)
    assert walk(who, received.wrap(lake()), most=5)[0] == [2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("plans", "words"),
    [
        ("!go. +!go <- .begin; .act(9).", "the actions of FrozenLake-v1 are 0 to 3"),
        ("!go. +!go <- .begin.", "nothing left to do"),
        ("!go. +!go <- .finish.", "ended by its viewers"),
        ("!go. +!go <- .begin; .begin.", "the session begins episodes"),
        ("!go. +!go <- .begin; !!on. +!on <- !!on.", "have not acted for"),
        ("!go. +!go <- .begin; .wait(60000); .act(1).", "have not acted for"),
    ],
)
def test_plans_that_do_not_act_are_stuck_and_the_error_explains_why(
    plans: str, words: str, received: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "THINK_SECONDS", 0.1)
    with pytest.raises(AgentStuckError, match=words):
        made(received, plan_text=plans).act(0)


def test_what_does_not_fit_is_refused_with_a_way_out(tmp_path: Path, received: Listener) -> None:
    small = walker(tmp_path / "a.npz")
    wide = gymnasium.make("FrozenLake-v1", map_name="8x8")
    with pytest.raises(CheckpointUnusableError, match="does not fit FrozenLake-v1: the table is 16 states"):
        BdiActor(wide, "FrozenLake-v1", 1, received.run, small, "")
    with pytest.raises(NoActorError, match="choose an agent trained in FrozenLake-v1"):
        agent("bdi:x", small, "", wide, "FrozenLake-v1", 1, received.run)
    with pytest.raises(AgentEnvError):
        BdiActor(gymnasium.make("CartPole-v1"), "CartPole-v1", 1, received.run, None, LEARNER)
    with pytest.raises(NoActorError, match="toy-text env"):
        agent("bdi", None, LEARNER, gymnasium.make("CartPole-v1"), "CartPole-v1", 1, received.run)
    with pytest.raises(PlansError, match="there are no plans"):
        made(received)


def test_without_the_interpreter_the_error_names_what_to_install(
    received: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith(("agentspeak", "runspine.trainers.bdi."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "agentspeak", None)
    with pytest.raises(NoActorError, match=r"needs agentspeak.*pip install 'runspine\[spade\]'"):
        agent("bdi", None, LEARNER, lake(), "FrozenLake-v1", 1, received.run)
