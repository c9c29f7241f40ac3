"""Runs that begin in the middle of a recorded episode, and who fits into the env of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from runspine.errors import Invalid
from runspine.fitting import Spaces, misfit
from runspine.forking import begin_at, fork_point, record_of
from runspine.lineage import fork_words, readable
from runspine.replay import Record, Replay
from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, ForkPoint, Play, RunSpec, Value
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from services.dashboard.core.forks import algos_for
from services.orchestrator.core.fork_rules import fork_flaws
from services.worker.algorithms.fork import Fork
from tests.unit.replay_rig import random_play, recorded

RUN = "01JCZW9T3N5Q8R7V2K4M6P0XYB"


def cartpole(folder: Path) -> GetEpisodeResponse:
    def play(listener: Any) -> None:
        random_play(listener.wrap(gymnasium.make("CartPole-v1")), 1)

    (said,) = recorded(folder, play)
    return said


def test_a_fork_point_holds_the_first_steps_and_replays_them_exactly(tmp_path: Path) -> None:
    said = cartpole(tmp_path)
    length = Record(said).length
    point = fork_point(RUN, said, length - 3)
    assert len(point.record) < 2000
    record = Record(record_of(point.record))
    assert record.length == length - 3
    assert Replay(record).verdict.exact
    whole = Record(said)
    assert [record.action(n) for n in range(record.length)] == [whole.action(n) for n in range(record.length)]
    assert record.kinds == {"hash": length - 2}


def test_a_fork_in_an_env_that_carries_something_over_a_reset_is_whole_too(tmp_path: Path) -> None:
    def play(listener: Any) -> None:
        random_play(listener.wrap(gymnasium.make("BipedalWalker-v3")), 3, longest=60)

    said = recorded(tmp_path / "a", play)[-1]
    path = tmp_path / "fork.point"
    path.write_bytes(fork_point(RUN, said, 30).SerializeToString())
    fork = Fork(path)

    def go_on(listener: Any) -> None:
        env = listener.wrap(fork.env())
        assert fork.reach(env).steps == 30
        env.tape.hand_to("human")
        for _ in range(5):
            env.step(np.zeros(4, np.float32))

    (again,) = recorded(tmp_path / "b", go_on)
    record = Record(again)
    assert record.length == 35
    assert record.beginning.ordinal == fork.way.resets > 0
    assert Replay(record).verdict.exact


def test_a_fork_beyond_the_end_is_refused(tmp_path: Path) -> None:
    said = cartpole(tmp_path)
    length = Record(said).length
    with pytest.raises(Invalid, match="fork it at 0 to"):
        fork_point(RUN, said, length + 1)
    with pytest.raises(Invalid, match=f"fork it at {length - 1} or before"):
        fork_point(RUN, said, length)
    with pytest.raises(Invalid, match="cannot be read"):
        record_of(b"nonsense")
    with pytest.raises(Invalid, match="cut short"):
        record_of(fork_point(RUN, said, 3).record[:-4])


def test_a_training_begins_at_a_fork_where_its_runner_can() -> None:
    point = ForkPoint(run_id=RUN, episode=4, step=7, record=b"x", every=True)
    wanted: dict[str, Any] = {"mode": TRAIN, "algo": "ppo", "fork": point}
    able = RunnerInfo(name="able", algos=[AlgoInfo(name="ppo")], modes=[TRAIN], forks=True)
    assert list(fork_flaws(RunSpec(runner="builtin", **wanted), {"builtin": able})) == []
    able.forks = False
    ((field, words),) = fork_flaws(
        RunSpec(runner="builtin", **wanted), {"builtin": able, "other": RunnerInfo(forks=True)}
    )
    assert field == "spec.fork"
    assert "those that can: other" in words
    point.Clear()
    assert {field for field, _ in fork_flaws(RunSpec(mode=TRAIN, fork=point), {})} == {
        "spec.fork.run_id",
        "spec.fork.record",
    }


def test_where_a_run_began_is_told_and_its_record_is_not_read_to_people() -> None:
    point = ForkPoint(run_id=RUN, episode=4, step=1200, record=b"x", every=True)
    words = f"step 1,200 of episode 4 of run {RUN}"
    assert fork_words(RunSpec(fork=point)) == f"{words}, in every episode"
    point.every = False
    assert fork_words(RunSpec(play=Play(fork=point))) == words
    assert fork_words(RunSpec(play=Play())) == ""
    spec = RunSpec(fork=point)
    assert (readable(spec).fork.record, readable(spec).fork.step, spec.fork.record) == (b"", 1200, b"x")


def test_the_env_of_a_training_is_that_of_its_fork(tmp_path: Path) -> None:
    record = Record(random_episode(tmp_path, "FrozenLake-v1", is_slippery=False))
    spec = RunSpec(runner="builtin", algo="qlearning")
    begin_at(spec, ForkPoint(run_id=RUN, record=b"x"), record)
    assert (spec.env, spec.env_kwargs["is_slippery"]) == ("FrozenLake-v1", Value(boolean=False))
    assert spec.fork.run_id == RUN
    with pytest.raises(Invalid, match="is in FrozenLake-v1, not in CartPole-v1"):
        begin_at(RunSpec(env="CartPole-v1"), ForkPoint(), record)
    with pytest.raises(Invalid, match="is_slippery False, not True"):
        begin_at(RunSpec(env_kwargs={"is_slippery": Value(boolean=True)}), ForkPoint(), record)
    assert algos_for(record) == ["qlearning", "ppo", "dqn"]
    assert algos_for(Record(random_episode(tmp_path, "Pendulum-v1"))) == ["ppo", "sac"]


def random_episode(folder: Path, env_id: str, **kwargs: Any) -> GetEpisodeResponse:
    def play(told: Any) -> None:
        random_play(told.wrap(gymnasium.make(env_id, **kwargs)), 1)

    return recorded(folder / env_id, play)[0]


def test_who_sees_or_does_something_else_does_not_fit() -> None:
    pole, lake = Spaces("Box", 4, "Discrete", 2), Spaces("Discrete", 16, "Discrete", 4)
    assert misfit(pole, lake) == "its observations are Box(4), and those here are Discrete(16)"
    assert (
        misfit(lake, Spaces("Discrete", 16, "Box", 4))
        == "its actions are Discrete(4), and those here are Box(4)"
    )
    assert misfit(Spaces(inputs=4, outputs=2), pole) == misfit(pole, pole) == misfit(Spaces(), lake) == ""
    assert "are 8 numbers, and those here are Box(4)" in misfit(Spaces(inputs=8), pole)
    assert lake.is_table
    assert not pole.is_table
