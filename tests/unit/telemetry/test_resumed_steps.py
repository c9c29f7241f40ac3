"""Steps of an attempt that resumed from a checkpoint follow those before it: each is answered once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from runspine.services.telemetry.core import steps
from runspine.services.telemetry.core.rows import Arrival, placed_steps
from runspine.services.telemetry.core.step_counter import row_counters
from runspine.services.telemetry.core.visibility import cutoffs
from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.wire.v1.facts_pb2 import ResumedFrom
from runspine.wire.v1.run_pb2 import AttemptHistory
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import STDOUT, Batch
from tests.kit.samples.sdk import Listener

RUN = "01TEST"
CHECKPOINT_STEP = 25


def assembled(
    lines: list[dict[str, Any]], attempt: int, resumed_at: int
) -> tuple[list[Batch], list[dict[str, Any]]]:
    assembler = BatchAssembler(RUN, attempt, RunSpec(), resumed_at=resumed_at)
    files: list[dict[str, Any]] = []
    assembler.on_artifact = files.append
    for number, line in enumerate(lines):
        assembler.take(json.dumps(line).encode(), STDOUT, 1_000_000 + number)
    return [Batch.FromString(record.payload) for record in assembler.cut(9_000_000, final=True)], files


def answered(batches: list[Batch], resumed: dict[int, tuple[int, int]]) -> list[tuple[int, int, str, int]]:
    """(counter, attempt, episode, step) of every visible step."""
    history = AttemptHistory()
    for number in sorted({batch.attempt for batch in batches}):
        attempt = history.attempts.add(number=number)
        if number in resumed:
            source, step = resumed[number]
            attempt.resumed_from.CopyFrom(ResumedFrom(run_id=RUN, attempt=source, step=step))
    arrivals = [
        Arrival(n, batch) for n, batch in enumerate(batches, 1) if batch.WhichOneof("kind") == "steps"
    ]
    found: list[tuple[int, int, str, int]] = []
    for table in steps.encode(placed_steps(arrivals), {}).values():
        kept = steps.visible_steps(table, cutoffs(RUN, history))
        columns = (kept.column(name).to_pylist() for name in ("attempt", "episode_id", "step"))
        found += zip(row_counters(kept).tolist(), *columns, strict=True)
    return sorted(found)


def trained(folder: Path, count: int, attempt: int, resume_step: int | None, snapshot: Any = None) -> Any:
    """Lines of an SDK trainer that takes so many steps and a checkpoint at its end, and its snapshot."""
    resumed = {} if resume_step is None else {"resume": "x.pt", "resume_kind": "resume"}
    if resume_step is not None and resume_step >= 0:
        resumed["resume_step"] = str(resume_step)
    listener = Listener(folder, attempt=str(attempt), **resumed)
    env = listener.wrap(gym.make("CartPole-v1"))
    if snapshot:
        env.restore(snapshot)
    else:
        env.reset(seed=1)
    for number in range(count):
        if any(env.step(number % 2)[2:4]):
            env.reset()
    (folder / "model.pt").write_text("x")
    listener.run.checkpoint(folder / "model.pt")
    snapshot = env.snapshot()
    return listener.lines(), snapshot


def check_each_once(found: list[tuple[int, int, str, int]], total: int) -> None:
    assert [counter for counter, *_ in found] == list(range(total))
    assert len({(episode, step) for _, _, episode, step in found}) == total


@pytest.mark.parametrize("passes_step", [True, False], ids=["sdk", "sdk of an earlier release"])
def test_steps_of_a_trainer_that_restores_nothing_follow_the_checkpoint(
    tmp_path: Path, passes_step: bool
) -> None:
    first, _ = trained(tmp_path, 40, 1, None)
    given = CHECKPOINT_STEP if passes_step else -1
    second, _ = trained(tmp_path, CHECKPOINT_STEP, 2, given)
    batches, _ = assembled(first, 1, 0)
    later, files = assembled(second, 2, CHECKPOINT_STEP)
    found = answered([*batches, *later], {2: (1, CHECKPOINT_STEP)})
    check_each_once(found, 2 * CHECKPOINT_STEP)
    assert [file["step"] for file in files] == [2 * CHECKPOINT_STEP]
    # The third attempt resumes from the second one's checkpoint.
    third, _ = trained(tmp_path, 10, 3, 2 * CHECKPOINT_STEP if passes_step else -1)
    last, _ = assembled(third, 3, 2 * CHECKPOINT_STEP)
    resumed = {2: (1, CHECKPOINT_STEP), 3: (2, 2 * CHECKPOINT_STEP)}
    check_each_once(answered([*batches, *later, *last], resumed), 2 * CHECKPOINT_STEP + 10)


def test_steps_of_a_restored_env_follow_its_snapshot(tmp_path: Path) -> None:
    first, snapshot = trained(tmp_path, CHECKPOINT_STEP, 1, None)
    second, again = trained(tmp_path, 30, 2, CHECKPOINT_STEP, snapshot)
    third, _ = trained(tmp_path, 5, 3, 55, again)
    batches = [
        *assembled(first, 1, 0)[0],
        *assembled(second, 2, CHECKPOINT_STEP)[0],
        *assembled(third, 3, 55)[0],
    ]
    found = answered(batches, {2: (1, CHECKPOINT_STEP), 3: (2, 55)})
    check_each_once(found, 60)


def test_ids_of_episodes_go_on_where_a_later_attempt_restores_what_one_did_not(tmp_path: Path) -> None:
    first, _ = trained(tmp_path, 60, 1, None)
    second, snapshot = trained(tmp_path, 60, 2, 60)
    third, _ = trained(tmp_path, 60, 3, 120, snapshot)
    batches = [*assembled(first, 1, 0)[0], *assembled(second, 2, 60)[0], *assembled(third, 3, 120)[0]]
    check_each_once(answered(batches, {2: (1, 60), 3: (2, 120)}), 180)


def step_lines(count: int, **more: int) -> list[dict[str, Any]]:
    return [
        {"type": "step", "episode_id": "0", "step": n, "action": 0, "reward": 1.0, "terminated": False,
         "truncated": False, **{name: first + n for name, first in more.items()}}
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("counted", [{}, {"global_step": 1}], ids=["no counter", "counter from 1"])
def test_steps_of_any_other_program_follow_the_checkpoint_too(counted: dict[str, int]) -> None:
    first, _ = assembled(step_lines(40, **counted), 1, 0)
    second, _ = assembled(step_lines(30, **counted), 2, CHECKPOINT_STEP)
    found = answered([*first, *second], {2: (1, CHECKPOINT_STEP)})
    counters = [counter for counter, *_ in found]
    assert len(counters) == len(set(counters))
    assert {counter: attempt for counter, attempt, *_ in found}[CHECKPOINT_STEP + 10] == 2
    assert sum(attempt == 2 for _, attempt, *_ in found) == 30


def test_a_counter_that_goes_on_is_left_as_it_is() -> None:
    lines = step_lines(30, global_step=CHECKPOINT_STEP)
    checkpoint = {"type": "artifact", "kind": "checkpoint", "path": "x", "step": CHECKPOINT_STEP}
    batches, files = assembled([checkpoint, *lines], 2, CHECKPOINT_STEP)
    assert [counter for counter, *_ in answered(batches, {})] == list(range(25, 55))
    assert files[0]["step"] == CHECKPOINT_STEP


def test_an_episode_recorded_again_under_its_id_is_answered_once() -> None:
    first, _ = assembled(step_lines(40), 1, 0)
    second, _ = assembled(step_lines(30), 2, CHECKPOINT_STEP)
    arrivals = [Arrival(n, batch) for n, batch in enumerate([*first, *second], 1) if batch.HasField("steps")]
    tables = list(steps.encode(placed_steps(arrivals), {}).values())
    kept = steps.without_repeats(tables)
    found = [(row["attempt"], row["step"]) for table in kept for row in table.to_pylist()]
    assert sorted(found) == [(2, step) for step in range(30)]
