"""Room for large runs: small ones pass by for a while, not for ever."""

from __future__ import annotations

from runspine.services.worker.claim.reservation import Reservations
from runspine.wire.v1.spec_pb2 import Limits, RunSpec

LARGE, SMALL = RunSpec(gpus=4), RunSpec(gpus=1)
PLAIN = RunSpec(limits=Limits(memory_mib=100))


def waiting_since_zero() -> Reservations:
    kept = Reservations(60)
    for second in range(100):
        kept.note("large", LARGE, 50, float(second))
    return kept


def test_small_runs_go_first_until_the_large_one_has_waited_long_enough() -> None:
    kept = Reservations(60)
    kept.note("large", LARGE, 50, 0.0)
    kept.note("large", LARGE, 50, 59.0)
    assert kept.keeps_out("small", SMALL, 50, 59.0) == ""
    kept.note("large", LARGE, 50, 60.0)
    assert kept.keeps_out("small", SMALL, 50, 61.0) == (
        "room is kept for run large, which has waited 61 s for it"
    )


def test_only_runs_that_want_the_same_and_are_no_more_urgent_are_kept_out() -> None:
    kept = waiting_since_zero()
    assert kept.keeps_out("small", SMALL, 50, 100.0)
    assert kept.keeps_out("urgent", SMALL, 51, 100.0) == ""
    assert kept.keeps_out("plain", PLAIN, 0, 100.0) == ""


def test_the_one_that_waits_is_not_kept_out_by_itself_or_by_another_that_waits() -> None:
    kept = waiting_since_zero()
    for second in range(20, 100):
        kept.note("other", RunSpec(gpus=3), 50, float(second))
    assert kept.keeps_out("large", LARGE, 50, 100.0) == ""
    assert kept.keeps_out("other", RunSpec(gpus=3), 50, 100.0) == ""
    assert "run large" in kept.keeps_out("small", SMALL, 50, 100.0)


def test_room_is_not_kept_for_a_run_that_was_taken_or_is_not_offered_any_more() -> None:
    kept = waiting_since_zero()
    assert kept.keeps_out("small", SMALL, 50, 120.0) == ""
    kept.note("large", LARGE, 50, 121.0)
    assert kept.keeps_out("small", SMALL, 50, 121.0), "it was only that nobody asked for offers"
    kept.forget("large")
    assert kept.keeps_out("small", SMALL, 50, 121.0) == ""
