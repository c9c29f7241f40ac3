from __future__ import annotations

from runspine.domain.run.commands import ComeBack, GiveUp, GoStale
from runspine.services.orchestrator.core.leases import Leases, LeaseTimeouts
from runspine.wire.v1.run_pb2 import CANCELLING, QUEUED, RUNNING, STALE, AttemptBeat, Beat, Run

TIMEOUTS = LeaseTimeouts(stale_after=15, lost_after=60)


def run_in(phase: int) -> Run:
    return Run(id="r", phase=phase, attempt=2, worker_id="w")  # type: ignore[arg-type]


def beat(attempt: int = 2) -> Beat:
    return Beat(worker_id="w", attempts=[AttemptBeat(run_id="r", attempt=attempt)])


def test_a_run_whose_worker_sends_heartbeats_is_left_alone() -> None:
    leases = Leases(0.0)
    for second in range(100):
        leases.record_heartbeat(beat(), second)
        assert leases.due_command(run_in(RUNNING), second + 1, 0, TIMEOUTS) is None


def test_silence_makes_a_run_stale_and_long_silence_gives_it_up() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat(beat(), 1)
    assert leases.due_command(run_in(RUNNING), 15.9, 0, TIMEOUTS) is None
    assert leases.due_command(run_in(RUNNING), 16, 20_000_000, TIMEOUTS) == GoStale(20_000_000, 2, 5_000_000)
    assert leases.due_command(run_in(STALE), 60.9, 0, TIMEOUTS) is None
    assert isinstance(leases.due_command(run_in(STALE), 61, 0, TIMEOUTS), GiveUp)
    assert isinstance(leases.due_command(run_in(CANCELLING), 61, 0, TIMEOUTS), GiveUp)


def test_a_stale_run_comes_back_with_the_next_heartbeat_of_its_own_attempt() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat(beat(), 1)
    leases.record_heartbeat(beat(attempt=1), 30)
    assert leases.due_command(run_in(STALE), 31, 0, TIMEOUTS) is None
    leases.record_heartbeat(beat(), 32)
    assert leases.due_command(run_in(STALE), 33, 7, TIMEOUTS) == ComeBack(7, 2)


def test_silence_does_not_count_while_heartbeats_could_not_be_received() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat(beat(), 1)
    leases.restart(100)
    assert leases.due_command(run_in(RUNNING), 101, 0, TIMEOUTS) is None
    assert leases.due_command(run_in(STALE), 101, 0, TIMEOUTS) is None, "back only after a heartbeat"
    assert isinstance(leases.due_command(run_in(RUNNING), 115, 0, TIMEOUTS), GoStale)


def test_time_stands_still_while_not_even_our_own_echo_comes_back() -> None:
    leases = Leases(0.0)
    leases.record_heartbeat(beat(), 1)
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
