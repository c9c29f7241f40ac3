"""Play sessions: what may be asked for, which keys mean what, and who acts when."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from runspine.errors import InvalidError
from runspine.services.orchestrator.core.spec_rules import violations, with_defaults
from runspine.services.worker.runners.play import command
from runspine.spec.plain import to_plain
from runspine.spec.run_file import apply_overrides, parse
from runspine.trainers.play.actors import Loading, NoActorError, PlayActor, chance
from runspine.trainers.play.keys import DOWN, LEFT, RIGHT, SPACE, UP, family, is_turn_based, keys_for
from runspine.trainers.play.orders import ActorOrder, KeyOrder, PaceOrder, parse_order
from runspine.trainers.play.session import NEVER, STEP, Session
from runspine.wire.v1.runner_pb2 import AlgoInfo, Param, RunnerInfo
from runspine.wire.v1.spec_pb2 import PLAY, TRAIN, Dataset, ForkPoint, Play, RunSpec, Value, WarmStart

RUN = "01JCZW9T3N5Q8R7V2K4M6P0XYB"
DIGEST = "ab" * 32
RUNNERS = {
    "builtin": RunnerInfo(
        name="builtin",
        modes=[TRAIN, PLAY],
        warm_starts=True,
        envs=["CartPole-v1"],
        algos=[AlgoInfo(name="ppo", params=[Param(name="x", required=True)])],
    ),
    "script": RunnerInfo(name="script", modes=[TRAIN], takes_command=True),
}


# What may be asked for


def asked(runner: str = "builtin", **fields: Any) -> RunSpec:
    return RunSpec(**{"runner": runner, "env": "CartPole-v1", "mode": PLAY, **fields})


def found_problems(spec: RunSpec) -> dict[str, str]:
    return {violation.field: violation.message for violation in violations(spec, RUNNERS)}


def test_a_session_needs_an_env_and_nothing_else() -> None:
    assert found_problems(asked()) == {}
    full = with_defaults(asked(), RUNNERS)
    assert (full.play.actor, full.algo, full.total_steps) == ("human", "play", 0)
    assert "is missing" in found_problems(asked(env=""))["spec.env"]


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"play": Play(actor="dog")}, "spec.play.actor", "human, random"),
        ({"play": Play(actor="policy:abc")}, "spec.play.actor", "policy:<sha256>"),
        ({"play": Play(actor="bdi")}, "spec.play.actor", "bdi:FILE"),
        ({"play": Play(actor="random", plan_text="!go.")}, "spec.play.plan_text", "remove it"),
        ({"play": Play(fork=ForkPoint(run_id=RUN, record=b"1", every=True))}, "spec.play.fork.every", "once"),
        ({"fork": ForkPoint(run_id=RUN, record=b"1")}, "spec.fork", "mode train alone"),
        ({"play": Play(steps_per_second=-1)}, "spec.play.steps_per_second", "0.1 to 10000"),
        ({"play": Play(episodes=2_000_000)}, "spec.play.episodes", "1000000"),
        ({"play": Play(fork=ForkPoint(run_id=RUN))}, "spec.play.fork.record", "--fork"),
        ({"play": Play(fork=ForkPoint(run_id="x", record=b"1"))}, "spec.play.fork.run_id", "26"),
        ({"params": {"gamma": Value(number=0.9)}}, "spec.params", "remove"),
        ({"warm_start": WarmStart(run_id=RUN)}, "spec.warm_start", "play.actor"),
        ({"dataset": Dataset(digest=DIGEST)}, "spec.dataset", "a play session"),
        ({"mode": TRAIN, "algo": "ppo", "play": Play()}, "spec.play", "set mode: play"),
        ({"runner": "script", "command": ["true"]}, "spec.mode", "cannot play; it can: train"),
    ],
)
def test_what_is_wrong_with_a_session_is_named(fields: dict[str, Any], field: str, words: str) -> None:
    assert words in found_problems(asked(**fields))[field]


def test_a_run_file_can_ask_for_a_session_and_a_fork_survives_a_change() -> None:
    text = "runner: builtin\nenv: CartPole-v1\nmode: play\nplay:\n  actor: random\n  turn_based: true\n"
    spec = parse(text, source="a file", folder=Path()).specs[0]
    assert (spec.mode, spec.play.actor, spec.play.turn_based) == (PLAY, "random", True)
    spec.play.fork.record = b"\x00\xff\x10"
    again = apply_overrides(spec, ["seed=9"])
    assert again.play.fork.record == b"\x00\xff\x10"
    assert to_plain(again)["play"]["fork"]["record"] == "00ff10"
    with pytest.raises(InvalidError, match="a file is not a valid run"):
        parse(text + "  fork: {record: xyz}\n", source="a file", folder=Path())


def test_the_command_contains_every_option() -> None:
    play = Play(actor="random", steps_per_second=12.5, turn_based=False, episodes=3)
    words = command("python", asked(play=play, seed=5, env_kwargs={"g": Value(number=9.8)}))
    assert " ".join(words) == (
        "python -m runspine.trainers.play.player --env-id CartPole-v1 --actor random "
        '--env-kwargs {"g": 9.8} --seed 5 --steps-per-second 12.5 --no-turn-based --episodes 3'
    )


# Keys


@pytest.mark.parametrize(
    ("env_id", "count", "held", "action", "rest"),
    [
        ("CartPole-v1", 2, [LEFT], 0, None),
        ("CartPole-v1", 2, [LEFT, RIGHT], 1, None),
        ("CartPole-v1", 2, [RIGHT, LEFT], 0, None),
        ("MountainCar-v0", 3, [RIGHT], 2, 1),
        ("Acrobot-v1", 3, [LEFT], 0, 1),
        ("LunarLander-v3", 4, [UP], 2, 0),
        ("FrozenLake-v1", 4, [DOWN], 1, None),
        ("CliffWalking-v1", 4, [DOWN], 2, None),
        ("Taxi-v3", 6, ["p"], 4, None),
        ("MiniGrid-Empty-5x5-v0", 7, [SPACE], 5, None),
        ("mine:Maze/Two-v3", 12, ["b"], 11, None),
    ],
)
def test_each_env_has_keys_of_its_own(
    env_id: str, count: int, held: list[str], action: int, rest: int | None
) -> None:
    keys = keys_for(env_id, spaces.Discrete(count))
    assert keys is not None
    assert (keys.chosen(held), keys.at_rest, keys.chosen(["F7"])) == (action, rest, None)
    assert all(hint.key and hint.action for hint in keys.hints)


def test_a_space_that_does_not_begin_at_zero_is_shifted() -> None:
    keys = keys_for("Mine-v0", spaces.Discrete(3, start=-1))
    assert keys is not None
    assert [keys.chosen([key]) for key in "012"] == [-1, 0, 1]


def test_arrows_push_the_axes_of_continuous_actions_to_their_ends() -> None:
    car = keys_for(
        "CarRacing-v3", spaces.Box(np.array([-1, 0, 0], np.float32), np.array([1, 1, 1], np.float32))
    )
    assert car is not None
    assert car.chosen([LEFT, UP]).tolist() == [-1, 1, 0]
    assert car.at_rest.tolist() == [0, 0, 0]
    other = keys_for("Mine-v0", spaces.Box(-2, 2, (3,)))
    assert other is not None
    assert other.chosen([RIGHT, DOWN, "d"]).tolist() == [2, -2, 2]
    assert other.chosen([RIGHT]).dtype == np.float32


def test_an_emulators_actions_are_keys_held_together() -> None:
    meanings = ["NOOP", "FIRE", "UP", "RIGHT", "UPRIGHT", "UPRIGHTFIRE"]
    keys = keys_for("ALE/Pong-v5", spaces.Discrete(6), meanings)
    assert keys is not None
    assert [keys.chosen(held) for held in ([SPACE], [UP, RIGHT], [SPACE, UP, RIGHT])] == [1, 4, 5]
    assert keys.at_rest == 0


def test_an_action_space_that_keys_cannot_express_has_no_keys() -> None:
    assert keys_for("Mine-v0", spaces.MultiDiscrete([2, 3])) is None


def test_the_kind_of_an_env_decides_whether_it_is_turn_based() -> None:
    assert family("ALE/Breakout-v5") == "Breakout"
    assert is_turn_based("FrozenLake-v1", spaces.Discrete(16))
    assert is_turn_based("MiniGrid-Empty-5x5-v0", spaces.Dict({}))
    assert not is_turn_based("CartPole-v1", spaces.Box(-1, 1))


# Who acts when

POLICY = PlayActor(f"policy:{DIGEST}", lambda seen: 0)


def session(*, turn_based: bool = False, env: str = "CartPole-v1", count: int = 2) -> Session:
    def find(choice: ActorOrder) -> PlayActor | Loading:
        if choice.actor == "human":
            return PlayActor("human")
        if choice.actor == "random":
            return chance(spaces.Discrete(count), 1)
        raise NoActorError("nobody has this name")

    keys = keys_for(env, spaces.Discrete(count))
    return Session(PlayActor("human"), keys, find, turn_based=turn_based, steps_per_second=10)


def test_turn_by_turn_each_key_is_one_step() -> None:
    game = session(turn_based=True)
    assert game.waiting
    assert game.wait(0) == NEVER
    for number, key in enumerate((LEFT, RIGHT), 1):
        game.process(KeyOrder(number, key, True))
        game.process(KeyOrder(number + 10, key, False))
    game.process(KeyOrder(20, "F7", True))
    assert [(game.wait(0), game.act(None, 0), game.applied) for _ in range(2)] == [(0, 0, 1), (0, 1, 2)]
    assert game.waiting


def test_in_real_time_the_first_key_sets_it_going_and_a_tap_is_not_lost() -> None:
    game = session()
    assert game.waiting
    game.process(KeyOrder(1, RIGHT, True))
    game.process(KeyOrder(2, RIGHT, False))
    assert game.wait(5.0) == 0
    assert game.act(None, 5.0) == 1
    assert game.wait(5.0) == pytest.approx(0.1)
    assert game.act(None, 5.1) == 1, "without an action for rest, it goes on as before"
    game.process(KeyOrder(3, LEFT, True))
    assert (game.act(None, 5.2), game.applied) == (0, 3)
    game.began()
    assert not game.waiting, "the key is still held"
    game.process(KeyOrder(4, LEFT, False))
    game.began()
    assert game.waiting


def test_where_an_env_can_rest_letting_go_means_rest() -> None:
    game = session(env="LunarLander-v3", count=4)
    game.process(KeyOrder(1, UP, True))
    assert game.act(None, 0) == 2
    game.process(KeyOrder(2, UP, False))
    assert game.act(None, 0.1) == 0


def test_control_is_handed_over_and_taken_back_in_mid_episode() -> None:
    game = session()
    game.process(KeyOrder(1, LEFT, True))
    game.act(None, 0)
    game.process(ActorOrder("random"))
    assert (game.actor.name, game.waiting, game.hints) == ("random", False, [])
    game.process(KeyOrder(2, LEFT, False))
    assert game.act(None, 1) in (0, 1)
    game.process(ActorOrder("human"))
    assert game.waiting, "nobody holds a key: the env waits for one"
    assert game.notice == "human acts"


def test_the_current_actor_goes_on_when_another_cannot_take_over() -> None:
    game = session()
    game.process(ActorOrder("random"))
    game.process(ActorOrder(POLICY.name, trouble="its bytes in S3 are not those that were stored"))
    assert game.actor.name == "random"
    assert game.notice.startswith(f"policy {DIGEST[:12]} does not take over, random goes on: its bytes")


def test_a_policy_takes_over_when_it_is_loaded_and_not_before() -> None:
    go, game = threading.Event(), session()

    def load(choice: ActorOrder) -> Loading:
        def slowly() -> PlayActor:
            go.wait(10)
            if choice.trouble or choice.path == Path("bad"):
                raise NoActorError("the checkpoint cannot be read")
            return POLICY

        return Loading(choice.actor, slowly)

    game._find = load
    for path, actor in ((Path("bad"), "human"), (Path("good"), POLICY.name)):
        go.clear()
        game.process(ActorOrder(POLICY.name, path))
        game.settle()
        assert game.actor.name == "human"
        go.set()
        assert game._loading is not None
        game._loading._thread.join(10)
        game.settle()
        assert game.actor.name == actor
    assert game.act(None, 0) == 0


def test_paused_it_waits_and_takes_single_steps() -> None:
    game = session()
    game.process(ActorOrder("random"))
    game.process(PaceOrder(paused=True))
    assert game.wait(0) == NEVER
    game.process(KeyOrder(1, STEP, True))
    assert game.wait(0) == 0
    game.act(None, 0)
    assert game.wait(0) == NEVER
    game.process(PaceOrder(paused=False, steps_per_second=50))
    assert game.act(None, 1.0) in (0, 1)
    assert game.wait(1.0) == pytest.approx(0.02)
    game.process(PaceOrder(reset=True))
    assert game.reset_asked
    game.began()
    assert not game.reset_asked


def test_orders_are_parsed_from_the_messages_of_the_worker() -> None:
    emitted: list[dict[str, Any]] = [
        {"input": {"person": "ada", "number": 7, "key": "w", "down": True}},
        {"actor": {"actor": "human"}},
        {"actor": {"actor": POLICY.name, "path": "/x"}},
        {"pace": {"turn_based": False}},
        {"other": {}},
    ]
    assert [parse_order(each) for each in emitted] == [
        KeyOrder(7, "w", True),
        ActorOrder("human"),
        ActorOrder(POLICY.name, Path("/x")),
        PaceOrder(turn_based=False),
        None,
    ]
