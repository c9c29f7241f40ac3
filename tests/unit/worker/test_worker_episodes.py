"""Each episode once, by the best word on it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.services.worker.telemetry.assembly.episodes import MAX_AGENTS
from runspine.text.facts import progress_parts
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import STDOUT, Batch, Episode
from tests.kit.samples.protocol import STEPS, base

SECOND = 1_000_000


class Trainer:
    def __init__(self) -> None:
        self.recording = BatchAssembler("run", 1, RunSpec())
        self.at = 0

    def step(
        self, episode: str, number: int, reward: float = 1.0, *, end: bool = False, agent: str = ""
    ) -> None:
        emitted = {"type": "step", "episode_id": episode, "step": number, "action": 0, "reward": reward}
        self.emit({**emitted, "terminated": end, "truncated": False, "agent_id": agent})

    def episode(self, name: str, value: float) -> str | None:
        return self.emit({"type": "episode", "episode_id": name, "steps": 9, "return": value})

    def print(self, step: int, value: float) -> None:
        self.emit(f"global_step={step}, episodic_return=[{value}]")

    def emit(self, emitted: dict[str, Any] | str) -> str | None:
        line = emitted if isinstance(emitted, str) else json.dumps(emitted)
        return self.recording.take(line.encode(), STDOUT, self.at)

    def ended(self, *, final: bool = False) -> list[Episode]:
        records = self.recording.cut(self.at, everything=True, final=final)
        batches = [Batch.FromString(record.payload) for record in records]
        return [episode for batch in batches for episode in batch.episodes.episodes]

    def returns(self, *, final: bool = False) -> list[float]:
        return [getattr(episode, "return") for episode in self.ended(final=final)]

    @property
    def count(self) -> int:
        return self.recording.counts.episodes


def test_without_a_word_of_its_own_flags_end_an_episode() -> None:
    trainer = Trainer()
    for number in range(3):
        trainer.step("a", number, 0.5, end=number == 2)
    assert (trainer.count, trainer.recording.progress(0).last_return) == (1, 1.5)
    assert trainer.ended() == []
    trainer.at += 3 * SECOND
    (episode,) = trainer.ended()
    assert (episode.episode_id, episode.steps, getattr(episode, "return"), episode.flags) == ("a", 3, 1.5, 1)
    trainer.step("b", 0, end=True)
    assert trainer.returns() == [1.0]
    assert trainer.count == 2


def test_the_trainers_own_word_is_not_doubled_by_flags() -> None:
    trainer = Trainer()
    for name in ("a", "b", "c"):
        trainer.step(name, 0, end=True)
        trainer.episode(name, 41.0)
        assert trainer.returns() == [41.0]
    assert trainer.count == 3
    assert trainer.returns(final=True) == []


def test_its_own_word_is_not_doubled_by_prints() -> None:
    trainer = Trainer()
    trainer.print(10, 1.0)
    trainer.step("a", 0, end=True)
    trainer.episode("a", 1.0)
    trainer.print(20, 2.0)
    assert trainer.returns(final=True) == [1.0]
    assert trainer.count == 1


def test_prints_count_when_there_is_nothing_else() -> None:
    trainer = Trainer()
    trainer.print(10, 1.5)
    assert trainer.recording.progress(0).last_return == 1.5
    trainer.print(20, 2.5)
    ended = trainer.ended(final=True)
    assert [(episode.global_step, getattr(episode, "return")) for episode in ended] == [(10, 1.5), (20, 2.5)]
    assert len({episode.episode_id for episode in ended}) == 2
    assert trainer.recording.progress(0).step == 20


@pytest.mark.parametrize(
    ("line", "step", "value"),
    [
        ("global_step=128, episodic_return=[23.]", 128, 23.0),
        ("global_step=128, episodic_return=21.5", 128, 21.5),
        ("global_step=7, episodic_return=[-1.2e+02]", 7, -120.0),
        ("[info] global_step=5, episodic_return=9, episodic_length=3", 5, 9.0),
    ],
)
def test_cleanrl_lines_are_episodes_and_stay_in_the_log(line: str, step: int, value: float) -> None:
    trainer = Trainer()
    assert trainer.emit(line) == line
    progress = trainer.recording.progress(SECOND)
    assert (progress.step, progress.episodes, progress.last_return) == (step, 1, value)


def test_a_print_ahead_of_its_steps_waits_for_them() -> None:
    trainer = Trainer()
    trainer.print(10, 99.0)
    assert trainer.ended() == []
    trainer.at += SECOND
    trainer.step("a", 0, end=True)
    trainer.at += 2 * SECOND
    assert trainer.returns() == [1.0]
    trainer.print(11, 99.0)
    assert (trainer.returns(), trainer.count) == ([], 1)


def test_a_late_summary_of_an_episode_already_recorded_is_a_log_line() -> None:
    trainer = Trainer()
    trainer.step("a", 0, end=True)
    trainer.at += 3 * SECOND
    assert trainer.returns() == [1.0]
    assert trainer.episode("a", 7.0) is not None
    assert trainer.episode("b", 8.0) is None
    trainer.step("c", 0, end=True)
    assert (trainer.returns(final=True), trainer.count) == ([8.0], 2)
    assert trainer.recording.counts.malformed == 0


def test_agents_end_their_episodes_apart() -> None:
    trainer = Trainer()
    for number in range(2):
        for agent, reward in (("red", 1.0), ("blue", -1.0)):
            trainer.step("a", number, reward, end=number == 1, agent=agent)
    ended = trainer.ended(final=True)
    assert [(episode.agent_id, getattr(episode, "return")) for episode in ended] == [
        ("red", 2.0),
        ("blue", -2.0),
    ]


def test_columns_end_an_episode_like_single_steps() -> None:
    trainer = Trainer()
    rewards = {"dtype": "<f4", "shape": [], "data": base(b"\0\0\x80\x3f" * 2)}
    trainer.emit({**STEPS, "reward": rewards, "flags": base(b"\0\0")})
    trainer.emit({**STEPS, "reward": rewards, "flags": base(b"\0\2"), "first": 130})
    (episode,) = trainer.ended(final=True)
    assert (episode.slot, episode.steps, getattr(episode, "return"), episode.flags) == (3, 4, 4.0, 2)


def test_episodes_of_the_training_are_counted_once_and_those_before_it_included() -> None:
    trainer = Trainer()
    trainer.recording = BatchAssembler("run", 2, RunSpec(), episodes_before=10)
    files: list[dict[str, Any]] = []
    trainer.recording.on_artifact = files.append
    artifact = {"type": "artifact", "kind": "checkpoint", "path": "a.pt", "episodes": 99}
    trainer.emit(artifact)
    trainer.print(5, 1.0)
    trainer.episode("a", 1.0)
    trainer.episode("eval-1", 1.0)
    trainer.episode("b", 1.0)
    trainer.emit(artifact)
    assert trainer.count == 3
    assert trainer.recording.episodes_trained == 12
    # Counted by the worker, whatever the trainer states.
    assert [each["episodes"] for each in files] == [10, 12]


def test_returns_of_agents_that_play_against_each_other_have_no_mean() -> None:
    trainer = Trainer()
    for number in range(3):
        for agent, value in (("left", -20.0), ("right", 20.0)):
            trainer.step(f"{number}", 0, value, end=True, agent=agent)
    trainer.at += 3 * SECOND
    batches = [Batch.FromString(r.payload) for r in trainer.recording.cut(trainer.at, everything=True)]
    progress = trainer.recording.progress(trainer.at)
    assert not progress.HasField("mean_return")
    assert dict(progress.agent_returns) == {"left": -20.0, "right": 20.0}
    series = {block.name: list(block.values) for batch in batches for block in batch.metrics.blocks}
    assert series == {"episode/return/left": [-20.0] * 3, "episode/return/right": [20.0] * 3}
    assert "left -20, right 20" in ", ".join(progress_parts(progress))


def test_one_agent_with_a_name_has_a_mean() -> None:
    trainer = Trainer()
    trainer.step("0", 0, 5.0, end=True, agent="only")
    assert trainer.recording.progress(trainer.at).mean_return == 5.0
    assert not trainer.recording.progress(trainer.at).agent_returns


def test_agents_without_end_do_not_fill_the_memory() -> None:
    trainer = Trainer()
    for number in range(MAX_AGENTS + 50):
        trainer.step(f"{number}", 0, 1.0, end=True, agent=f"agent-{number}")
    assert len(trainer.recording.progress(trainer.at).agent_returns) == MAX_AGENTS


def test_episodes_counted_from_prints_are_not_counted_again_from_late_steps() -> None:
    """Lines of the SDK may wait while the trainer compiles, and its prints do not."""
    trainer = Trainer()
    for number in (0, 1):
        trainer.at += 1000
        trainer.print(number, 1.0)
    trainer.at += 5 * SECOND
    assert len(trainer.returns()) == 2
    for number in range(12):
        ended = {"type": "step", "episode_id": str(number), "step": 0, "action": 0, "reward": 1.0}
        at = 500e-6 if number < 2 else trainer.at / SECOND + number
        trainer.emit({**ended, "terminated": True, "truncated": False, "t": at})
    assert len(trainer.returns(final=True)) == 10
    assert trainer.count == 12
    assert trainer.recording.episodes_trained == 12


def test_prints_wait_for_the_steps_of_a_recorded_env() -> None:
    trainer = Trainer()
    trainer.print(0, 1.0)
    trainer.emit({"type": "reset", "episode_id": "0-0", "slot": 0, "ordinal": 0})
    trainer.at += 20 * SECOND
    assert trainer.returns() == []
    assert trainer.count == 1
    trainer.step("0-0", 0, 1.0, end=True)
    trainer.at += 20 * SECOND
    assert [episode.episode_id for episode in trainer.ended()] == ["0-0"]
    assert trainer.count == 1


def test_prints_of_a_recorded_env_that_ends_no_episode_count_after_a_while() -> None:
    trainer = Trainer()
    trainer.emit({"type": "reset", "episode_id": "0-0", "slot": 0, "ordinal": 0})
    trainer.print(0, 1.0)
    trainer.at += 31 * SECOND
    assert [episode.episode_id for episode in trainer.ended()] == ["print-1"]
