"""Runs that begin in the middle of a recorded episode, and who fits into the env of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from runspine.domain.lineage import describe_fork, readable
from runspine.errors import InvalidError
from runspine.play.fit import Spaces, misfit
from runspine.play.fork import fork_point, record_of, start_at_fork
from runspine.replay import EpisodeRecord, Replay
from runspine.services.dashboard.core.forks import algos_for
from runspine.services.orchestrator.core.fork_rules import fork_violations
from runspine.trainers.builtin.fork import Fork
from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, ForkPoint, Play, RunSpec, Value
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from tests.kit.samples.episodes import random_play, recorded

RUN = "01JCZW9T3N5Q8R7V2K4M6P0XYB"


def cartpole(folder: Path) -> GetEpisodeResponse:
    def play(listener: Any) -> None:
        random_play(listener.wrap(gymnasium.make("CartPole-v1")), 1)

    (emitted,) = recorded(folder, play)
    return emitted


def test_a_fork_point_holds_the_first_steps_and_replays_them_exactly(tmp_path: Path) -> None:
    emitted = cartpole(tmp_path)
    length = EpisodeRecord(emitted).length
    point = fork_point(RUN, emitted, length - 3)
    assert len(point.record) < 2000
    record = EpisodeRecord(record_of(point.record))
    assert record.length == length - 3
    assert Replay(record).verdict.exact
    whole = EpisodeRecord(emitted)
    assert [record.action(n) for n in range(record.length)] == [whole.action(n) for n in range(record.length)]
    assert record.kinds == {"hash": length - 2}


def test_a_fork_in_an_env_that_carries_something_over_a_reset_is_whole_too(tmp_path: Path) -> None:
    def play(listener: Any) -> None:
        random_play(listener.wrap(gymnasium.make("BipedalWalker-v3")), 3, longest=60)

    emitted = recorded(tmp_path / "a", play)[-1]
    path = tmp_path / "fork.point"
    path.write_bytes(fork_point(RUN, emitted, 30).SerializeToString())
    fork = Fork(path)

    def go_on(listener: Any) -> None:
        env = listener.wrap(fork.env())
        assert fork.reach(env).steps == 30
        env.recorder.set_actor("human")
        for _ in range(5):
            env.step(np.zeros(4, np.float32))

    (again,) = recorded(tmp_path / "b", go_on)
    record = EpisodeRecord(again)
    assert record.length == 35
    assert record.start.ordinal == fork.way.resets > 0
    assert Replay(record).verdict.exact


def test_a_fork_beyond_the_end_is_refused(tmp_path: Path) -> None:
    emitted = cartpole(tmp_path)
    length = EpisodeRecord(emitted).length
    with pytest.raises(InvalidError, match="fork it at 0 to"):
        fork_point(RUN, emitted, length + 1)
    with pytest.raises(InvalidError, match=f"fork it at {length - 1} or before"):
        fork_point(RUN, emitted, length)
    with pytest.raises(InvalidError, match="cannot be read"):
        record_of(b"nonsense")
    with pytest.raises(InvalidError, match="cut short"):
        record_of(fork_point(RUN, emitted, 3).record[:-4])


def test_a_training_begins_at_a_fork_where_its_runner_can() -> None:
    point = ForkPoint(run_id=RUN, episode=4, step=7, record=b"x", every=True)
    wanted: dict[str, Any] = {"mode": TRAIN, "algo": "ppo", "fork": point}
    able = RunnerInfo(name="able", algos=[AlgoInfo(name="ppo")], modes=[TRAIN], forks=True)
    assert list(fork_violations(RunSpec(runner="builtin", **wanted), {"builtin": able})) == []
    able.forks = False
    (violation,) = fork_violations(
        RunSpec(runner="builtin", **wanted), {"builtin": able, "other": RunnerInfo(forks=True)}
    )
    assert violation.field == "spec.fork"
    assert "those that can: other" in violation.message
    point.Clear()
    assert {each.field for each in fork_violations(RunSpec(mode=TRAIN, fork=point), {})} == {
        "spec.fork.run_id",
        "spec.fork.record",
    }


def test_a_fork_point_is_described_without_its_binary_record() -> None:
    point = ForkPoint(run_id=RUN, episode=4, step=1200, record=b"x", every=True)
    words = f"step 1,200 of episode 4 of run {RUN}"
    assert describe_fork(RunSpec(fork=point)) == f"{words}, in every episode"
    point.every = False
    assert describe_fork(RunSpec(play=Play(fork=point))) == words
    assert describe_fork(RunSpec(play=Play())) == ""
    spec = RunSpec(fork=point)
    assert (readable(spec).fork.record, readable(spec).fork.step, spec.fork.record) == (b"", 1200, b"x")


def test_the_env_of_a_training_is_that_of_its_fork(tmp_path: Path) -> None:
    record = EpisodeRecord(random_episode(tmp_path, "FrozenLake-v1", is_slippery=False))
    spec = RunSpec(runner="builtin", algo="qlearning")
    start_at_fork(spec, ForkPoint(run_id=RUN, record=b"x"), record)
    assert (spec.env, spec.env_kwargs["is_slippery"]) == ("FrozenLake-v1", Value(boolean=False))
    assert spec.fork.run_id == RUN
    with pytest.raises(InvalidError, match="is in FrozenLake-v1, not in CartPole-v1"):
        start_at_fork(RunSpec(env="CartPole-v1"), ForkPoint(), record)
    with pytest.raises(InvalidError, match="is_slippery False, not True"):
        start_at_fork(RunSpec(env_kwargs={"is_slippery": Value(boolean=True)}), ForkPoint(), record)
    assert algos_for(record) == ["qlearning", "ppo", "dqn"]
    assert algos_for(EpisodeRecord(random_episode(tmp_path, "Pendulum-v1"))) == ["ppo", "sac"]


def random_episode(folder: Path, env_id: str, **kwargs: Any) -> GetEpisodeResponse:
    def play(received: Any) -> None:
        random_play(received.wrap(gymnasium.make(env_id, **kwargs)), 1)

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
