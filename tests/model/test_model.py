"""The model holds, each of its rules is needed, and the checker of logs sees what breaks them."""

from __future__ import annotations

import pytest

from runspine.wire.v1 import facts_pb2 as facts
from runspine.wire.v1.facts_pb2 import EXITED, LOST, Fact
from tests.model.trace import Trace, problems, traces
from tests.model.verify import CASES, Case, missing, verify

needs_spin = pytest.mark.skipif(bool(missing()), reason=missing() or "spin is installed")


def rule(case: Case) -> str:
    return case.name


@needs_spin
def test_attempts_execute_one_at_a_time_and_not_without_the_lock() -> None:
    chosen = tuple(case for case in CASES if case.claim == "asserted" and case.defined in ((), ("NO_LOCK",)))
    found = list(verify(chosen, faults=1))
    assert [verdict.as_expected for verdict in found] == [True, True]


@needs_spin
@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=rule)
def test_properties_hold_and_every_rule_is_needed(case: Case) -> None:
    (verdict,) = verify((case,))
    assert verdict.as_expected, verdict.error or "no behaviour violates it"


def submitted() -> list[Fact]:
    return [Fact(run_submitted=facts.RunSubmitted()), Fact(run_queued=facts.RunQueued(attempt=1))]


def claimed(attempt: int, worker: str = "w1") -> Fact:
    return Fact(attempt_started=facts.AttemptStarted(attempt=attempt, worker_id=worker))


def ended(attempt: int, worker: str = "w1", outcome: facts.Outcome = EXITED) -> Fact:
    return Fact(attempt_exited=facts.AttemptExited(attempt=attempt, worker_id=worker, outcome=outcome))


def running(attempt: int, worker: str = "w1") -> Fact:
    return Fact(run_started=facts.RunStarted(attempt=attempt, worker_id=worker))


STALE = Fact(run_went_stale=facts.RunWentStale(attempt=1))
REQUEUED = Fact(run_requeued=facts.RunRequeued(attempt=2))
COMPLETED = Fact(run_completed=facts.RunCompleted(attempt=1))
TAKEN_OVER = [*submitted(), running(1), STALE, REQUEUED, running(2, "w2")]
ALLOWED = {
    "completed": Trace([*submitted(), running(1), COMPLETED], [claimed(1), ended(1)]),
    "taken over, and the late word ignored": Trace(
        [*TAKEN_OVER, Fact(run_completed=facts.RunCompleted(attempt=2))],
        [claimed(1), claimed(2, "w2"), ended(1), ended(2, "w2")],
    ),
    "lost with its worker": Trace([*submitted(), running(1), REQUEUED], [claimed(1), ended(1, outcome=LOST)]),
    "cancelled": Trace(
        [
            *submitted(),
            Fact(run_cancel_requested=facts.RunCancelRequested()),
            Fact(run_cancelled=facts.RunCancelled(attempt=1)),
        ]
    ),
}
FORBIDDEN = {
    "claimed twice": Trace([*submitted(), running(1)], [claimed(1), claimed(1, "w2")]),
    "claimed and never queued": Trace([*submitted(), running(1)], [claimed(1), claimed(2)]),
    "ended by w2": Trace([*submitted(), running(1)], [claimed(1), ended(1, "w2")]),
    "ended twice": Trace([*submitted(), running(1), COMPLETED], [claimed(1), ended(1), ended(1)]),
    "run_completed in phase ENDED": Trace(
        [*submitted(), running(1), COMPLETED, COMPLETED], [claimed(1), ended(1)]
    ),
    "run_completed of attempt 1 while attempt 2 was current": Trace(
        [*TAKEN_OVER, COMPLETED], [claimed(1), claimed(2, "w2"), ended(1)]
    ),
    "started on w1, which had not claimed it": Trace([*submitted(), running(1)], [claimed(1, "w2")]),
    "without a clean exit": Trace(
        [*submitted(), running(1), COMPLETED], [claimed(1), ended(1, outcome=LOST)]
    ),
    "given up without an exit and without silence": Trace([*submitted(), running(1), REQUEUED], [claimed(1)]),
    "attempt 2 was queued after attempt 2": Trace(
        [*TAKEN_OVER, STALE, REQUEUED], [claimed(1), claimed(2, "w2")]
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_log_by_the_rules_is_accepted(name: str) -> None:
    assert list(problems(ALLOWED[name])) == []


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_log_that_breaks_a_rule_is_named_with_it(name: str) -> None:
    assert any(name in problem for problem in problems(FORBIDDEN[name]))


def test_commits_are_sorted_by_run() -> None:
    commits = [("runs.r1", submitted()), ("attempts.r1", [claimed(1)]), ("workers.w1", []), ("keys.k", [])]
    found = traces((subject, facts.Commit(facts=some)) for subject, some in commits)
    assert found == {"r1": Trace(submitted(), [claimed(1)])}
