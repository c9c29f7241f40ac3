"""Actors that the play page offers, and steering messages of a page."""

from __future__ import annotations

from typing import Any

import pytest

from runspine.play.actors import actors_of, first_actor
from runspine.services.dashboard.core.steering import parse_control
from runspine.services.dashboard.pages.play.player import actor_title
from runspine.wire.v1.artifacts_pb2 import CORRUPT, GOOD, Actor, Artifact, CardScore, CheckpointCard
from runspine.wire.v1.live_pb2 import ChooseActor, Control, Input, Pace
from runspine.wire.v1.spec_pb2 import Value


def card(digest: str, env: str = "CartPole-v1", **more: Any) -> CheckpointCard:
    integrity = more.pop("integrity", GOOD)
    artifact = Artifact(run_id="R", digest=digest * 64, step=4096, integrity=integrity)
    artifact.meta["inputs"].CopyFrom(Value(integer=4))
    return CheckpointCard(**{"artifact": artifact, "env": env, "algo": "ppo", "runner": "builtin", **more})


def test_everybody_who_fits_is_an_actor_and_nobody_else() -> None:
    cards = [
        card("a", score=CardScore(mean=481.5)),
        card("b", env="Acrobot-v1"),
        card("c", integrity=CORRUPT),
        card("d", obstacle="it cannot be read"),
        card("e", runner="spade_bdi"),
        card("f", source="elsewhere.zip"),
    ]
    found = actors_of(cards, [Actor(name="champion", card=cards[0])], "CartPole-v1")
    assert [actor.name[:8] for actor in found] == ["human", "random", "policy:a", "bdi:eeee", "policy:f"]
    best = found[2]
    assert (best.observes, best.score, best.run_id, best.activated) == (
        "4 numbers",
        481.5,
        "R",
        ("champion",),
    )
    assert actor_title(best) == "champion · ppo at step 4,096 · return 481.5 · aaaaaaaa"
    assert (found[3].title, found[4].run_id) == ("BDI agent at step 4,096", "")
    assert len(actors_of(cards)) == 6, "of all envs"


def test_actors_are_listed_the_activated_first_then_the_best_whatever_their_algorithm() -> None:
    cards = [
        card("a", algo="dqn", score=CardScore(mean=12.0)),
        card("b", algo="dqn"),
        card("c", algo="ppo", score=CardScore(mean=480.0)),
        card("d", algo="sac", score=CardScore(mean=300.0)),
    ]
    found = actors_of(cards, [Actor(name="default", card=cards[3])], "", ["script:walker", "llm", "llm"])
    names = [actor.name[:13] for actor in found]
    assert names == ["human", "random", "llm", "script:walker", *(f"policy:{each * 6}" for each in "dcab")]
    assert [actor_title(actor) for actor in found[2:4]] == ["language model", "script walker"]


def test_an_env_begins_with_the_last_actor_chosen_there_else_with_its_default() -> None:
    cards = [card("a", score=CardScore(mean=9.0)), card("b", score=CardScore(mean=5.0))]
    found = actors_of(cards, [Actor(name="default", card=cards[1])])
    assert first_actor(found, "", "") == "policy:" + "b" * 64
    assert first_actor(found, "", "policy:" + "a" * 64) == "policy:" + "a" * 64
    assert first_actor(found, "random", "human") == "random"
    assert first_actor(found, "policy:gone") == "policy:" + "b" * 64
    assert first_actor(actors_of(cards), "") == "human"


def test_a_steering_message_carries_the_persons_name() -> None:
    key = {"input": {"key": "w", "number": 7, "down": True}}
    assert parse_control(key, "ada") == Control(input=Input(person="ada", number=7, key="w", down=True))
    assert parse_control({"actor": "human"}, "ada") == Control(actor=ChooseActor(person="ada", actor="human"))
    pace = parse_control({"pace": {"steps_per_second": 12.5, "paused": False}}, "ada").pace
    assert pace == Pace(steps_per_second=12.5, paused=False)
    assert not pace.HasField("turn_based")


@pytest.mark.parametrize(
    "message",
    [
        None,
        {},
        {"input": {"key": "x" * 99, "number": 1, "down": True}},
        {"input": {"key": "x", "number": -1, "down": True}},
        {"input": {"key": "x", "number": 1}},
        {"actor": "policy:../../etc/passwd"},
        {"actor": ["human"]},
        {"pace": {"steps_per_second": float("nan")}},
        {"pace": {"steps_per_second": "fast"}},
        {"interest": {"fps": 30}},
    ],
)
def test_anything_else_is_refused(message: Any) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_control(message, "ada")
