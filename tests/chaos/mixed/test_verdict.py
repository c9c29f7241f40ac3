"""The checker itself: what must not be is seen."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict

from runspine.wire.v1.facts_pb2 import Commit, Fact, RunCompleted, RunFailed, RunSubmitted
from runspine.wire.v1.run_pb2 import COMPLETED
from tests.chaos.mixed import matrix
from tests.chaos.mixed.faults import KINDS, schedule
from tests.chaos.mixed.verdict import (
    Asked,
    Verdict,
    check_acknowledged,
    check_artifacts,
    check_ends,
    check_ledger,
    check_steps,
)

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


def test_a_run_or_a_cancel_that_was_accepted_and_is_not_on_the_log_is_seen() -> None:
    verdict = Verdict()
    check_acknowledged(verdict, ["r1", "r2"], ["r1"], ended(Fact(run_submitted=RunSubmitted())))
    assert verdict.lost_facts == 2


def test_an_attempt_that_starts_twice_or_overlaps_the_next_is_detected() -> None:
    for lines, clean in (
        (["r1 1 1.0 begin", "r1 1 2.0 end"], True),
        (["r1 1 1.0 begin", "r1 2 3.0 begin", "r1 2 4.0 end"], True),
        (["r1 1 1.0 begin", "r1 1 1.5 begin"], False),
        (["r1 1 1.0 begin", "r1 2 1.5 begin", "r1 1 2.0 end"], False),
        (["r1 1 1.0 begin", "r1 2 1.5 begin", "r1 1 2.0 lives"], False),
    ):
        verdict = Verdict()
        check_ledger(verdict, lines)
        assert verdict.clean == clean, lines


def test_a_worker_that_was_unreachable_is_excused_for_that_time_only() -> None:
    lines = ["r1 1 1.0 begin", "r1 2 1.5 begin", "r1 1 2.0 lives"]
    verdict = Verdict()
    check_ledger(verdict, lines, lambda run, attempt, at: (run, attempt) == ("r1", 1) and 1 < at < 2)
    assert verdict.clean
    check_ledger(verdict, lines, lambda run, attempt, at: at > 2)
    assert verdict.executed_at_once == 1


def test_lost_and_doubled_steps_are_counted() -> None:
    verdict = Verdict()
    check_steps(verdict, RUN, {0: 1, 1: 2})
    assert (verdict.lost_steps, verdict.doubled_steps) == (1, 1)


def test_damage_that_nobody_caused_and_damage_that_nobody_sees_are_distinguished() -> None:
    verdict = Verdict()
    check_artifacts(verdict, {"a": "gone", "b": "flipped"}, {"b", "c", "d"}, {"d"})
    assert (verdict.unreadable, verdict.unseen_damage) == (1, 1)


def test_the_same_seed_gives_the_same_faults_of_kinds_that_can_be_done() -> None:
    targets = {"kill": ["nats", "s3"], "cut": ["worker-1-nats"], "jump": []}
    faults = schedule(5, targets, 300, 2)
    assert faults == schedule(5, targets, 300, 2) != schedule(6, targets, 300, 2)
    assert {fault.kind for fault in faults} == {"kill", "cut"}


def test_every_fault_that_struck_stands_in_the_tables() -> None:
    targets = {kind: ["a – b"] if kind in matrix.TO_CONNECTIONS else ["a", "b"] for kind in KINDS}
    each = Counter(fault.name for fault in schedule(1, targets, 3000.0, 1.0))
    emitted = {
        "each": each, "faults": each.total(), "runs": 1, "attempts": 2, "runs with more than one": 0,
        "cancelled": 0, "steps": 5, **asdict(Verdict()),
    }  # fmt: skip
    text = matrix.tables(emitted)
    assert {matrix.kind_of(name)[0] for name in each} == set(KINDS)
    received, _, verdict = text.partition("| verdict |")
    numbers = [int(cell) for cell in re.findall(r"(?<=[|:] )\d+(?= \||\.)", received)]
    assert sum(numbers) == each.total()
    assert verdict.count("| 0 |") == len(matrix.WRONGS)
