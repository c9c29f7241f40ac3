"""AgentSpeak plans over a real env, without a server: what they can do, and how they fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import agentspeak
import pytest

import runspine
from runspine.trainers.bdi import checkpoint
from runspine.trainers.bdi.args import Args
from runspine.trainers.bdi.program import PlansError, Program
from runspine.trainers.bdi.training import BdiTraining
from runspine.trainers.bdi.world import AgentEnvError, World
from runspine.trainers.builtin.checkpoints import CheckpointUnusableError
from tests.kit.paths import ROOT

LEARNER = (ROOT / "runspine/trainers/bdi/plans/learner.asl").read_text()
DRY = '{"is_slippery": false}'
Begin = Callable[..., Program]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.chdir(tmp_path)
    made: list[World] = []

    def begun(
        plans: str = LEARNER, resume: Path | None = None, kind: str = "resume", **args: object
    ) -> Program:
        given = {"env_kwargs": DRY, "total_timesteps": 400, **args}
        training = BdiTraining(Args(**given), plans, runspine.init())  # type: ignore[arg-type]
        made.append(training)
        if resume:
            training.resume(resume, kind)
        return Program("plans.asl", training)

    yield begun
    for training in made:
        training.env.close()


def lived(program: Program) -> Program:
    """To the end of its plans."""
    while program.run_for(10.0):
        pass
    return program


def newest(program: Program) -> Path:
    training = program.world
    assert isinstance(training, BdiTraining)
    found = training.checkpoints.folder.glob("step-*.npz")
    return max(found, key=lambda path: int(path.stem.removeprefix("step-")))


def test_the_shipped_plans_use_up_the_steps_and_finish(begin: Begin) -> None:
    program = lived(begin())
    assert program.world.ended == "finished"
    assert program.world.step == 400
    assert program.world.history.episodes > 10
    assert not program.mind.at_rest or program.mind.seen()["intentions"] == []
    arrays, about = checkpoint.read(newest(program))
    assert about["step"] == 400
    assert arrays["visits"].sum() == 400


@pytest.mark.parametrize("env", ["CliffWalking-v1", "Taxi-v4"])
def test_other_toy_text_envs_are_learnt_in(begin: Begin, env: str) -> None:
    program = lived(begin(env_id=env, env_kwargs="{}"))
    assert program.world.ended == "finished"
    assert program.world.table.known > 5


def test_the_intention_stack_does_not_grow_with_the_episodes(begin: Begin) -> None:
    program = begin(total_timesteps=2000)
    deepest = 0
    while program.run_for(0.001):
        deepest = max(
            deepest, *(len(stack) for stack in program.agent.intentions), len(program.agent.intentions)
        )
    assert 1 <= deepest <= 3


@pytest.mark.parametrize(
    ("plans", "why"),
    [
        ("!learn.\n+!learn <- .begin; .act(0", "plans.asl:2: "),
        ("!learn.\n+!learn <- .fly(3).", "plans.asl:2: .*fly"),
        ("é ♥ ⟂", "plans.asl:1: "),
    ],
)
def test_the_error_of_plans_that_cannot_be_read_names_the_line(begin: Begin, plans: str, why: str) -> None:
    with pytest.raises(PlansError, match=why):
        begin(plans)


@pytest.mark.parametrize(
    ("plans", "why"),
    [
        ("!go.\n+!go <- .begin; !walk.", r"plans.asl:2: no applicable plan for \+!walk/0"),
        (
            "!go.\n+!go <-\n .begin;\n .act(9).",
            r"plans.asl:4: .act\(9\): the actions of FrozenLake-v1 are 0 to 3",
        ),
        ("!go.\n+!go <- .begin; .act(0.5).", r"\.act\(0.5\)"),
        ('!go.\n+!go <- .begin; .act("up").', r"\.act\(up\)"),
        ("!go.\n+!go <- .begin; .act(X).", r"\.act\("),
        ("!go.\n+!go <- .act(0).", r"\.act after the end of an episode: .begin comes first"),
        ("!go.\n+!go <- .begin; .reflect.", r"\.reflect in the middle of an episode"),
    ],
)
def test_plans_that_ask_for_nonsense_fail_at_their_line(begin: Begin, plans: str, why: str) -> None:
    program = begin(plans)
    with pytest.raises((agentspeak.AslError, agentspeak.AggregatedError)) as caught:
        lived(program)
    assert re.search(why, program.explained(caught.value)), program.explained(caught.value)


def test_plans_without_anything_to_do_come_to_rest(begin: Begin) -> None:
    program = lived(begin("!go.\n+!go <- .begin."))
    assert program.mind.at_rest
    assert not program.world.ended


def test_plans_are_notified_of_changes_and_can_keep_beliefs_of_their_own(begin: Begin) -> None:
    plans = (
        LEARNER + "\n+reward(R) : R > 0 & state(S) <- +goal(S).\n+over : reward(0) & state(S) <- +hole(S).\n"
    )
    program = lived(begin(plans, total_timesteps=3000))
    believed = set(program.mind.seen()["beliefs"])
    assert "goal(15)" in believed
    assert {belief for belief in believed if belief.startswith("hole")} <= {
        "hole(5)", "hole(7)", "hole(11)", "hole(12)",
    }  # fmt: skip
    assert "hole(5)" in believed


def test_a_resumed_program_believes_what_it_believed_and_ends_the_same(begin: Begin) -> None:
    plans = LEARNER + '\n+over : state(S) & not seen(S) <- +seen(S); +word("a b, c").\n'
    slippery = {"env_kwargs": "{}", "total_timesteps": 600, "checkpoint_every": 200}
    whole = lived(begin(plans, **slippery))
    first = begin(plans, **slippery)
    while first.world.checkpoints.last == 0:  # type: ignore[attr-defined]
        first.run_for(0.001)
    saved = newest(first)
    again = lived(begin(plans, resume=saved, **slippery))
    assert again.world.ended == "finished"
    assert again.world.table.values == whole.world.table.values
    assert again.mind.beliefs() == whole.mind.beliefs()
    assert any('word("a b, c")' in belief for belief in again.mind.beliefs())


def test_a_stop_in_mid_episode_keeps_the_last_end_of_one(begin: Begin) -> None:
    program = begin(total_timesteps=100_000, checkpoint_every=90_000)
    while not program.world.history.episodes:
        program.run_for(0.001)
    assert program.world.keep() == f"the checkpoint is in {newest(program).parent}"
    about = checkpoint.read(newest(program))[1]
    assert 0 < about["step"] <= program.world.step
    assert about["env"]["episode"]["ended"]
    written = newest(program).stat().st_mtime_ns
    program.world.keep()
    assert newest(program).stat().st_mtime_ns == written  # nothing new to write


def test_warm_start_takes_the_table_alone_and_a_misfit_is_refused(begin: Begin) -> None:
    trained = newest(lived(begin(total_timesteps=1500)))
    still = {"learning_rate": 0.0, "end_learning_rate": 0.0}
    warm = begin(resume=trained, kind="warm_start", total_timesteps=200, **still)
    assert warm.world.step == 0
    assert (warm.world.table.arrays()["q"] == checkpoint.read(trained)[0]["q"]).all()
    lived(warm)
    assert (checkpoint.read(newest(warm))[0]["q"] == checkpoint.read(trained)[0]["q"]).all()
    with pytest.raises(CheckpointUnusableError, match="its env FrozenLake-v1, this run's Taxi-v4"):
        begin(resume=trained, env_id="Taxi-v4", env_kwargs="{}")
    with pytest.raises(CheckpointUnusableError, match="16 states by 4 actions"):
        begin(resume=trained, kind="warm_start", env_kwargs='{"map_name": "8x8"}')
    with pytest.raises(CheckpointUnusableError, match=r"other arguments \(gamma\): use a warm start"):
        begin(resume=trained, gamma=0.5)
    with pytest.raises(CheckpointUnusableError, match=r"other arguments \(plans\)"):
        begin(LEARNER + "// changed", resume=trained)


def test_an_env_that_has_no_numbered_states_is_unfit(begin: Begin) -> None:
    with pytest.raises(
        AgentEnvError, match="a table needs discrete observations and actions, and CartPole-v1 has"
    ):
        begin(env_id="CartPole-v1", env_kwargs="{}")
