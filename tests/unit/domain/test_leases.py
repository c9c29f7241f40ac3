from __future__ import annotations

from runspine.domain.run.commands import ComeBack, GiveUp, GoStale
from runspine.services.orchestrator.core.leases import Leases, LeaseTimeouts
from runspine.wire.v1.run_pb2 import CANCELLING, QUEUED, RUNNING, STALE, Run

TIMEOUTS = LeaseTimeouts(stale_after=15, lost_after=60)


def run_in(phase: int) -> Run:
    return Run(id="r", phase=phase, attempt=2, worker_id="w")  # type: ignore[arg-type]


def test_a_run_whose_worker_sends_heartbeats_is_left_alone() -> None:
    leases = Leases(0.0)
    for second in range(100):
        leases.record_heartbeat("r", 2, second)
        assert leases.due_command(run_in(RUNNING), second + 1, 0, TIMEOUTS) is None


def test_silence_makes_a_run_stale_and_long_silence_gives_it_up() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat("r", 2, 1)
    assert leases.due_command(run_in(RUNNING), 15.9, 0, TIMEOUTS) is None
    assert leases.due_command(run_in(RUNNING), 16, 20_000_000, TIMEOUTS) == GoStale(20_000_000, 2, 5_000_000)
    assert leases.due_command(run_in(STALE), 60.9, 0, TIMEOUTS) is None
    assert isinstance(leases.due_command(run_in(STALE), 61, 0, TIMEOUTS), GiveUp)
    assert isinstance(leases.due_command(run_in(CANCELLING), 61, 0, TIMEOUTS), GiveUp)


def test_a_stale_run_comes_back_with_the_next_heartbeat_of_its_own_attempt() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat("r", 2, 1)
    assert leases.due_command(run_in(STALE), 31, 0, TIMEOUTS) is None
    leases.record_heartbeat("r", 2, 32)
    assert leases.due_command(run_in(STALE), 33, 7, TIMEOUTS) == ComeBack(7, 2)


def test_silence_does_not_count_while_heartbeats_could_not_be_received() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat("r", 2, 1)
    leases.restart(100)
    assert leases.due_command(run_in(RUNNING), 101, 0, TIMEOUTS) is None
    assert leases.due_command(run_in(STALE), 101, 0, TIMEOUTS) is None, "back only after a heartbeat"
    assert isinstance(leases.due_command(run_in(RUNNING), 115, 0, TIMEOUTS), GoStale)


def test_time_stands_still_while_not_even_our_own_echo_comes_back() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat("r", 2, 1)
    leases.record_arrival(1)
    assert leases.due_command(run_in(RUNNING), leases.last_arrival, 0, TIMEOUTS) is None
    leases.record_arrival(200)
    assert leases.due_command(run_in(STALE), leases.last_arrival, 0, TIMEOUTS) is None, "leases restart"
    for second in range(201, 261):
        assert leases.due_command(run_in(STALE), leases.last_arrival, 0, TIMEOUTS) is None
        leases.record_arrival(second)
    assert isinstance(leases.due_command(run_in(STALE), leases.last_arrival, 0, TIMEOUTS), GiveUp)


def test_a_fresh_attempt_has_a_whole_lease_to_begin_with() -> None:
    leases = Leases(0.0)
    assert leases.due_command(run_in(RUNNING), 500, 0, TIMEOUTS) is None
    assert leases.due_command(run_in(RUNNING), 514, 0, TIMEOUTS) is None
    assert isinstance(leases.due_command(run_in(RUNNING), 515, 0, TIMEOUTS), GoStale)


def test_a_run_that_waits_has_no_lease() -> None:
    assert Leases(0.0).due_command(run_in(QUEUED), 1000, 0, TIMEOUTS) is None


def follow(leases: Leases, run: Run, first: int, last: int) -> list[tuple[int, str]]:
    """What is decided second by second, as the scheduler asks: only about leases that may have run out."""
    found = []
    for second in range(first, last):
        for run_id in leases.due(second):
            assert run_id == run.id
            command = leases.due_command(run, second, 0, TIMEOUTS)
            leases.check_again(run, second, 1.0, TIMEOUTS)
            if command is not None:
                found.append((second, type(command).__name__))
    return found


def test_a_lease_is_looked_at_when_it_may_have_run_out() -> None:
    leases, run = Leases(0.0), run_in(RUNNING)
    leases.track(run, 1)
    leases.record_heartbeat("r", 2, 10)
    assert follow(leases, run, 1, 30) == [(second, "GoStale") for second in range(25, 30)]
    run.phase = STALE
    leases.track(run, 30)
    assert follow(leases, run, 30, 50) == []
    leases.record_heartbeat("r", 2, 50)
    assert follow(leases, run, 50, 51) == [(50, "ComeBack")]
    run.phase = RUNNING
    leases.track(run, 52)
    assert follow(leases, run, 52, 66) == [(65, "GoStale")]
    run.phase = STALE
    leases.track(run, 66)
    assert follow(leases, run, 66, 111) == [(110, "GiveUp")]


def test_leases_that_heartbeats_renew_are_looked_at_seldom() -> None:
    leases = Leases(0.0)
    runs = {f"r{n}": Run(id=f"r{n}", phase=RUNNING, attempt=1) for n in range(100)}
    for run in runs.values():
        leases.track(run, 0.0)
    looked_at = 0
    for second in range(150):
        for run_id in runs:
            leases.record_heartbeat(run_id, 1, float(second))
        for run_id in leases.due(float(second)):
            assert leases.due_command(runs[run_id], float(second), 0, TIMEOUTS) is None
            leases.check_again(runs[run_id], float(second), 1.0, TIMEOUTS)
            looked_at += 1
    assert looked_at <= len(runs) * (2 + 150 / 14)


def test_a_stale_run_does_not_come_back_because_this_process_started_again() -> None:
    leases, run = Leases(100.0), run_in(STALE)
    leases.track(run, 100.0)
    assert leases.due_command(run, 100.0, 0, TIMEOUTS) is None
    assert leases.due_command(run, 101.0, 0, TIMEOUTS) is None
    leases.record_heartbeat("r", 2, 102.0)
    assert isinstance(leases.due_command(run, 102.0, 0, TIMEOUTS), ComeBack)


def test_a_run_that_has_ended_has_no_lease() -> None:
    leases = Leases(0.0)
    leases.track(run_in(RUNNING), 0.0)
    leases.track(Run(id="r"), 1.0)
    assert leases.due(1000.0) == []
