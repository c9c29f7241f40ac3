"""The checker itself: what must not be is seen."""

from __future__ import annotations

from runspine.wire.v1.facts_pb2 import Commit, Fact, RunCompleted, RunFailed
from runspine.wire.v1.run_pb2 import COMPLETED
from tests.chaos.mixed.faults import schedule
from tests.chaos.mixed.verdict import Asked, Verdict, check_ends, check_ledger, check_steps

RUN = Asked("r1", 3, frozenset({COMPLETED}))


def ended(*facts: Fact) -> list[tuple[str, Commit]]:
    return [("runs.r1", Commit(facts=[fact])) for fact in facts]


def test_one_true_ending_is_right_and_none_two_or_another_are_not() -> None:
    completed, failed = Fact(run_completed=RunCompleted()), Fact(run_failed=RunFailed())
    for log, clean in (
        (ended(completed), True),
        (ended(), False),
        (ended(completed, completed), False),
        (ended(failed), False),
    ):
        verdict = Verdict()
        check_ends(verdict, [RUN], log)
        assert verdict.clean == clean


def test_an_attempt_begun_twice_or_before_the_last_one_ended_is_seen() -> None:
    for lines, clean in (
        (["r1 1 1.0 begin", "r1 1 2.0 end"], True),
        (["r1 1 1.0 begin", "r1 2 3.0 begin", "r1 2 4.0 end"], True),
        (["r1 1 1.0 begin", "r1 1 1.5 begin"], False),
        (["r1 1 1.0 begin", "r1 2 1.5 begin", "r1 1 2.0 end"], False),
    ):
        verdict = Verdict()
        check_ledger(verdict, lines)
        assert verdict.clean == clean, lines


def test_lost_and_doubled_steps_are_counted() -> None:
    verdict = Verdict()
    check_steps(verdict, RUN, {0: 1, 1: 2})
    assert (verdict.lost_steps, verdict.doubled_steps) == (1, 1)


def test_the_same_seed_gives_the_same_faults() -> None:
    parts = ("nats", "s3", "worker-1")
    assert schedule(5, parts, 100, 2) == schedule(5, parts, 100, 2) != schedule(6, parts, 100, 2)
