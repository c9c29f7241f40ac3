"""Sessions that people share with an agent, and actors that think for a while or come from a package."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from gymnasium import spaces

from runspine.play.actor_names import checkpoint_of, is_actor, shown
from runspine.trainers.play.actors import NoActorError, PlayActor, shared
from runspine.trainers.play.keys import LEFT, RIGHT, keys_for
from runspine.trainers.play.orders import ActorOrder, KeyOrder
from runspine.trainers.play.scripts import script_actor, script_names
from runspine.trainers.play.session import NEVER, STEP, Session
from tests.kit.waiting import until

DIGEST = "ab" * 32


class Agent:
    """Always pushes left, and remembers what it was given."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def actor(self, name: str = f"policy:{DIGEST}", **more: Any) -> PlayActor:
        return PlayActor(name, self.act, self.began, self.came, **more)

    def act(self, observation: Any) -> int:
        self.calls.append(f"act {observation}")
        return 0

    def began(self) -> None:
        self.calls.append("began")

    def came(self, observation: Any, *_: Any) -> None:
        self.calls.append(f"came {observation}")


def nobody(order: ActorOrder) -> PlayActor:
    raise NoActorError("nobody has this name")


def session(actor: PlayActor, *, turn_based: bool = False) -> Session:
    keys = keys_for("CartPole-v1", spaces.Discrete(2))
    made = Session(actor, keys, nobody, turn_based=turn_based, steps_per_second=10)
    made.began()
    return made


def test_names_of_actors_have_one_grammar() -> None:
    for name in ("human", "random", "llm", "llm:org/model-4:8b", "script:walker", f"policy:{DIGEST}", "bdi"):
        assert is_actor(name)
        assert is_actor(f"hybrid:{name}") == (name != "human")
    for name in (
        "",
        "dog",
        "policy:x",
        "script:",
        "script:../x",
        "llm:",
        "hybrid:",
        "hybrid:hybrid:random",
        "llm:a b",
    ):
        assert not is_actor(name), name
    assert checkpoint_of(f"hybrid:bdi:{DIGEST}") == DIGEST
    assert checkpoint_of("llm:model") == checkpoint_of("bdi") == ""
    assert shown(f"hybrid:policy:{DIGEST}") == "hybrid policy abababababab"


def test_in_real_time_the_agent_acts_and_a_key_takes_over_for_its_step() -> None:
    agent = Agent()
    game = session(shared(agent.actor()))
    assert (game.actor.name, game.waiting, bool(game.hints)) == (f"hybrid:policy:{DIGEST}", False, True)
    assert (game.act(0, 0), game.chooser) == (0, f"policy:{DIGEST}")
    game.came(1, 1.0, False, False)
    game.process(KeyOrder(1, RIGHT, True))
    assert (game.act(1, 0.1), game.chooser, game.applied) == (1, "human", 1)
    game.came(2, 1.0, False, False)
    assert (game.act(2, 0.2), game.chooser) == (1, "human"), "for as long as it is held"
    game.process(KeyOrder(2, RIGHT, False))
    assert (game.act(3, 0.3), game.chooser) == (0, f"policy:{DIGEST}")
    assert agent.calls == ["began", "act 0", "came 1", "began", "act 3"], (
        "of its own steps, and what it missed"
    )


def test_a_tap_between_two_steps_is_not_lost() -> None:
    game = session(shared(Agent().actor()))
    game.process(KeyOrder(1, RIGHT, True))
    game.process(KeyOrder(2, RIGHT, False))
    assert [(game.act(0, n), game.chooser) for n in range(2)] == [(1, "human"), (0, f"policy:{DIGEST}")]


def test_where_steps_wait_for_keys_people_and_the_agent_take_turns() -> None:
    game = session(shared(Agent().actor()), turn_based=True)
    assert (game.waiting, game.wait(0)) == (True, NEVER)
    for number in (1, 2):
        game.process(KeyOrder(number, RIGHT, True))
    assert [(game.act(0, n), game.chooser) for n in range(3)] == [
        (1, "human"),
        (0, f"policy:{DIGEST}"),
        (1, "human"),
    ]
    assert not game.waiting, "the agent's turn"
    game.act(0, 3)
    assert game.waiting
    game.process(KeyOrder(3, STEP, True))
    assert not game.waiting
    assert (game.act(0, 4), game.chooser) == (0, f"policy:{DIGEST}"), "left to the agent"
    game.began()
    assert game.waiting


def test_people_do_not_share_with_themselves_and_a_failing_agent_leaves_the_old_one() -> None:
    with pytest.raises(NoActorError, match="not with themselves"):
        shared(PlayActor("human"))
    game = session(PlayActor("human"))

    def fails(_: Any) -> int:
        raise NoActorError("it is stuck")

    for name in ("llm", "script:x", "bdi", "policy:x", "hybrid:random", "random"):
        game.process(ActorOrder(name))
        assert (game.actor.name, game.human) == ("human", True)
        game._take(PlayActor(name, fails))
        with pytest.raises(NoActorError) as stuck:
            game.act(0, 0)
        game.give_back(stuck.value)
        assert game.actor.name == "human"
        assert game.notice.endswith("cannot go on, human does: it is stuck")


def test_a_slow_actor_thinks_while_the_session_goes_on_and_can_be_replaced() -> None:
    answer = threading.Event()

    def slowly(observation: Any) -> int:
        assert answer.wait(60)
        return 1

    game = session(PlayActor("llm", slowly, slow=True))
    assert not game.think(0)
    assert not game.think(0)
    game.process(KeyOrder(1, LEFT, True))
    answer.set()
    until(lambda: game.think(0))
    assert (game.act(0, 0), game.chooser) == (1, "llm")
    answer.clear()
    assert not game.think(1)
    game._take(PlayActor("random", lambda _: 0))
    assert game.think(1)
    assert (game.act(1, 1), game.chooser) == (0, "random"), "the answer that was awaited is dropped"
    answer.set()


# Scripts


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with scripts, as pip would lay it out."""
    info = tmp_path / "plays-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plays\nVersion: 1.0\n")
    names = ("zero", "wild", "broken", "unmade", "number", "moody")
    points = "\n".join(f"{name} = plays_scripts:{name}" for name in names)
    (info / "entry_points.txt").write_text(f"[runspine.actors]\n{points}\nabsent = no_such_module:make\n")
    (tmp_path / "plays_scripts.py").write_text(SCRIPTS)
    monkeypatch.syspath_prepend(tmp_path)


SCRIPTS = """
def zero(env, seed): return lambda observation: 0
def wild(env, seed): return lambda observation: 17
def broken(env, seed): return lambda observation: 1 / 0
def unmade(env, seed): raise ValueError("not in this env")
def number(env, seed): return 5

class moody:
    def __init__(self, env, seed): self.seed = seed
    def __call__(self, observation): return self.seed
    def came(self, *result): raise KeyError("enough")
"""


class Bare:
    action_space = spaces.Discrete(2)


def made(name: str) -> PlayActor:
    env: Any = Bare()
    return script_actor(f"script:{name}", env, 1)


@pytest.mark.usefixtures("installed")
def test_a_script_of_a_package_acts_and_one_that_fails_is_refused_with_the_reason() -> None:
    assert {"zero", "wild", "absent"} <= set(script_names())
    game = session(made("zero"))
    assert (game.act(None, 0), game.chooser) == (0, "script:zero")
    for name, words in {
        "zer0": "Did you mean 'zero'",
        "unmade": "failed: ValueError: not in this env",
        "number": "makes a int, not a callable",
        "absent": "failed: ModuleNotFoundError",
    }.items():
        with pytest.raises(NoActorError, match=words):
            made(name)
    for name, words in {"wild": "chose 17, which is none of", "broken": "ZeroDivisionError"}.items():
        with pytest.raises(NoActorError, match=words):
            session(made(name)).act(None, 0)


@pytest.mark.usefixtures("installed")
def test_a_script_that_fails_after_its_step_loses_control_with_the_next_one() -> None:
    game = session(made("moody"))
    assert game.act(None, 0) == 1
    game.came(None, 1.0, False, False)
    with pytest.raises(NoActorError, match="KeyError: 'enough'"):
        game.act(None, 1)
