"""Queues, sorted keys and reasons to wait: what is kept up to date equals what a fold of everything gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runspine.bench.fleet.whole_folds import waiting_runs
from runspine.services.orchestrator.core.indexes.queues import PoolQueues
from runspine.services.orchestrator.core.indexes.sorted_keys import MAX_CHUNK, SortedKeys
from runspine.services.orchestrator.core.indexes.wait_reasons import MAX_AGE_MICROS, WaitReasons
from runspine.wire.v1.run_pb2 import COMPLETED, QUEUED, RUNNING, Attempt, AttemptHistory, Run
from runspine.wire.v1.spec_pb2 import RunSpec

IDS = st.sampled_from("abcdef")


@st.composite
def changed_runs(draw: st.DrawFn) -> tuple[Run, AttemptHistory | None]:
    run = Run(
        id=draw(IDS),
        phase=draw(st.sampled_from([QUEUED, QUEUED, RUNNING, COMPLETED])),
        attempt=draw(st.integers(1, 2)),
        priority=draw(st.sampled_from([0, 50, 90])),
        queued_at=draw(st.integers(0, 3)),
        not_before=draw(st.sampled_from([0, 0, 6])),
        spec=RunSpec(pool=draw(st.sampled_from(["", "gpu"]))),
    )
    claimed = draw(st.sampled_from([0, 1, 2]))
    return run, AttemptHistory(attempts=[Attempt(number=claimed)]) if claimed else None


@given(st.lists(changed_runs(), max_size=30))
def test_queues_that_are_updated_equal_those_of_a_whole_fold(
    changes: list[tuple[Run, AttemptHistory | None]],
) -> None:
    queues, runs, attempts = PoolQueues(), dict[str, Run](), dict[str, AttemptHistory]()
    for now, (run, history) in enumerate(changes):
        runs[run.id] = run
        attempts.pop(run.id, None)
        if history is not None:
            attempts[run.id] = history
        queues.update(run, history, now)
        for run_id in queues.rested(now):
            queues.update(runs[run_id], attempts.get(run_id), now)
        expected = waiting_runs(runs.values(), attempts, now)
        assert {pool: [offer.run_id for offer in queues.head(pool, 100)] for pool in queues} == {
            pool: [run.id for run in queue] for pool, queue in expected.items()
        }
        assert queues.depths() == {pool: len(queue) for pool, queue in expected.items()}


def test_only_the_window_is_offered_and_a_change_names_its_pool() -> None:
    queues = PoolQueues()
    for number in range(20):
        queues.update(Run(id=f"r{number:02d}", phase=QUEUED, attempt=1, queued_at=number), None, 0)
    assert [offer.run_id for offer in queues.head("default", 3)] == ["r00", "r01", "r02"]
    assert queues.take_changed() == {"default"}
    assert queues.take_changed() == set()
    queues.remove("r00")
    queues.remove("r00")
    assert [offer.run_id for offer in queues.head("default", 1)] == ["r01"]
    assert queues.take_changed() == {"default"}


@given(st.lists(st.integers(0, 200)))
def test_sorted_keys_are_a_sorted_set(numbers: list[int]) -> None:
    keys, expected = SortedKeys[int](), set[int]()
    for number in numbers:
        if number in expected:
            keys.remove(number)
            expected.discard(number)
        else:
            keys.add(number)
            expected.add(number)
        assert list(keys) == sorted(expected)
        assert len(keys) == len(expected)


def test_sorted_keys_stay_sorted_over_many_chunks() -> None:
    count = MAX_CHUNK * 4
    keys = SortedKeys(range(0, count, 2))
    for number in range(count - 1, 0, -2):
        keys.add(number)
    assert list(keys) == list(range(count))
    for number in range(0, count, 3):
        keys.remove(number)
    left = [number for number in range(count) if number % 3]
    assert list(keys) == left


def test_a_run_counts_as_postponed_while_any_report_is_recent() -> None:
    waits, pools = WaitReasons(), {"r": "gpu", "s": "gpu"}
    waits.report("w1", {"r": "no GPU", "s": "no GPU"}, pools, 0)
    waits.report("w2", {"r": "no memory"}, pools, 5)
    assert waits.counts(10) == {"gpu": 2}
    assert waits.counts(MAX_AGE_MICROS) == {"gpu": 1}
    assert waits.of("r", MAX_AGE_MICROS) == {"w2": "no memory"}
    waits.report("w2", {}, pools, 6)
    assert waits.of("r", 7) == {"w1": "no GPU"}
    waits.drop("r")
    assert not waits.counts(7)
    waits.report("w1", {"s": "no GPU"}, pools, 2 * MAX_AGE_MICROS)
    assert waits.counts(2 * MAX_AGE_MICROS) == {"gpu": 1}
