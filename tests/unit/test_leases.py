from __future__ import annotations

from runspine.run.commands import ComeBack, GiveUp, GoStale
from runspine.wire.v1.run_pb2 import CANCELLING, QUEUED, RUNNING, STALE, AttemptBeat, Beat, Run
from services.orchestrator.core.leases import Leases, Patience

PATIENCE = Patience(stale_after=15, lost_after=60)


def run_in(phase: int) -> Run:
    return Run(id="r", phase=phase, attempt=2, worker_id="w")  # type: ignore[arg-type]


def beat(attempt: int = 2) -> Beat:
    return Beat(worker_id="w", attempts=[AttemptBeat(run_id="r", attempt=attempt)])


def test_a_run_whose_worker_is_heard_is_left_alone() -> None:
    leases = Leases(0.0)
    for second in range(100):
        leases.heard(beat(), second)
        assert leases.verdict(run_in(RUNNING), second + 1, 0, PATIENCE) is None


def test_silence_makes_a_run_stale_and_long_silence_gives_it_up() -> None:
    leases = Leases(0.0)
    leases.heard(beat(), 1)
    assert leases.verdict(run_in(RUNNING), 15.9, 0, PATIENCE) is None
    assert leases.verdict(run_in(RUNNING), 16, 20_000_000, PATIENCE) == GoStale(20_000_000, 2, 5_000_000)
    assert leases.verdict(run_in(STALE), 60.9, 0, PATIENCE) is None
    assert isinstance(leases.verdict(run_in(STALE), 61, 0, PATIENCE), GiveUp)
    assert isinstance(leases.verdict(run_in(CANCELLING), 61, 0, PATIENCE), GiveUp)


def test_a_stale_run_comes_back_when_its_own_attempt_is_heard_again() -> None:
    leases = Leases(0.0)
    leases.heard(beat(), 1)
    leases.heard(beat(attempt=1), 30)
    assert leases.verdict(run_in(STALE), 31, 0, PATIENCE) is None
    leases.heard(beat(), 32)
    assert leases.verdict(run_in(STALE), 33, 7, PATIENCE) == ComeBack(7, 2)


def test_silence_does_not_count_while_we_could_not_hear() -> None:
    leases = Leases(0.0)
    leases.heard(beat(), 1)
    leases.deaf_until(100)
    assert leases.verdict(run_in(RUNNING), 101, 0, PATIENCE) is None
    assert leases.verdict(run_in(STALE), 101, 0, PATIENCE) is None, "back only when really heard"
    assert isinstance(leases.verdict(run_in(RUNNING), 115, 0, PATIENCE), GoStale)


def test_time_stands_still_while_not_even_our_own_echo_comes_back() -> None:
    leases = Leases(0.0)
    leases.heard(beat(), 1)
    leases.sound(1)
    assert leases.verdict(run_in(RUNNING), leases.ears, 0, PATIENCE) is None
    leases.sound(200)
    assert leases.verdict(run_in(STALE), leases.ears, 0, PATIENCE) is None, "everybody begins anew"
    for second in range(201, 261):
        assert leases.verdict(run_in(STALE), leases.ears, 0, PATIENCE) is None
        leases.sound(second)
    assert isinstance(leases.verdict(run_in(STALE), leases.ears, 0, PATIENCE), GiveUp)


def test_a_fresh_attempt_has_a_whole_lease_to_begin_with() -> None:
    leases = Leases(0.0)
    assert leases.verdict(run_in(RUNNING), 500, 0, PATIENCE) is None
    assert leases.verdict(run_in(RUNNING), 514, 0, PATIENCE) is None
    assert isinstance(leases.verdict(run_in(RUNNING), 515, 0, PATIENCE), GoStale)


def test_a_run_that_waits_has_no_lease() -> None:
    assert Leases(0.0).verdict(run_in(QUEUED), 1000, 0, PATIENCE) is None
