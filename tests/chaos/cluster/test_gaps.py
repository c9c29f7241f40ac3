"""How long writes were out, and which faults come when: from made-up times."""

from __future__ import annotations

from tests.chaos.cluster.faults import one_by_one, overlapping
from tests.chaos.cluster.gaps import ANY_SECONDS, ELECTION_SECONDS, Strike, gap_of, limit_of, rows

TARGETS = {"kill": ["worker-1", "worker-2"], "freeze": ["s3"], "power": []}


def test_a_gap_that_began_before_the_fault_ended_counts_for_it() -> None:
    strike = Strike("kill nats-leader", began=10.0, recovered=20.0)
    assert gap_of(strike, [1.0, 9.9, 16.0, 16.1, 20.1]) == 16.0 - 9.9
    assert gap_of(strike, [1.0, 5.0, 30.0, 31.0]) == 25.0


def test_gaps_before_and_after_the_fault_do_not_count() -> None:
    strike = Strike("kill s3", began=10.0, recovered=12.0)
    times = [0.0, 5.0, *(5 + at / 10 for at in range(1, 80)), 13.0, 19.0]
    assert gap_of(strike, times) < 0.2


def test_writes_that_never_came_back_are_a_gap_to_the_end() -> None:
    assert gap_of(Strike("cut off s3", 10.0, 40.0), [9.0]) == 31.0


def test_an_election_has_ten_seconds_and_a_killed_orchestrator_two() -> None:
    assert limit_of(Strike("kill nats-leader", 0, 1, elected=True)) == ELECTION_SECONDS
    assert limit_of(Strike("kill orchestrator-2", 0, 1)) == 2.0
    assert limit_of(Strike("freeze orchestrator-2", 0, 1)) == ANY_SECONDS


def test_processes_of_one_sort_share_a_row() -> None:
    some = [(Strike(f"kill worker-{n}", 0, 1), float(n)) for n in (1, 2, 3)]
    assert [(row.name, row.count, row.median, row.longest) for row in rows(some)] == [
        ("kill worker", 3, 2.0, 3.0)
    ]


def test_every_kind_strikes_every_target_once_and_a_seed_gives_one_order() -> None:
    faults = one_by_one(7, TARGETS)
    assert sorted(fault.name for fault in faults) == ["freeze s3", "kill worker-1", "kill worker-2"]
    assert faults == one_by_one(7, TARGETS)


def test_overlapping_faults_fill_the_time_and_leave_out_kinds_without_a_target() -> None:
    faults = overlapping(7, TARGETS, 600, 5)
    assert 60 < len(faults) < 200
    assert {fault.kind for _, fault in faults} == {"kill", "freeze"}
    assert all(after >= 0 for after, _ in faults)
