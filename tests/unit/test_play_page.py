"""Who is offered, and what a page may say to a session."""

from __future__ import annotations

from typing import Any

import pytest

from runspine.actors import actors_of
from runspine.wire.v1.artifacts_pb2 import CORRUPT, GOOD, Actor, Artifact, CardScore, CheckpointCard
from runspine.wire.v1.live_pb2 import ChooseActor, Control, Input, Pace
from runspine.wire.v1.spec_pb2 import Value
from services.dashboard.core.steering import control_of
from services.dashboard.pages.player import title_of


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
    assert title_of(best) == "champion · ppo at step 4,096 · return 481.5 · aaaaaaaa"
    assert (found[3].title, found[4].run_id) == ("BDI agent at step 4,096", "")
    assert len(actors_of(cards)) == 6, "of all envs"


def test_what_a_page_says_goes_on_with_the_persons_name() -> None:
    key = {"input": {"key": "w", "number": 7, "down": True}}
    assert control_of(key, "ada") == Control(input=Input(person="ada", number=7, key="w", down=True))
    assert control_of({"actor": "human"}, "ada") == Control(actor=ChooseActor(person="ada", actor="human"))
    pace = control_of({"pace": {"steps_per_second": 12.5, "paused": False}}, "ada").pace
    assert pace == Pace(steps_per_second=12.5, paused=False)
    assert not pace.HasField("turn_based")


@pytest.mark.parametrize(
    "said",
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
def test_anything_else_is_refused(said: Any) -> None:
    with pytest.raises(ValueError, match="not a"):
        control_of(said, "ada")
