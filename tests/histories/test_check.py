"""The checker itself: histories that must be refused, and those that must not."""

from __future__ import annotations

import re

import pytest

from runspine.domain.run.diagram import transitions
from tests.histories.calls import Call, Outcome, Seen
from tests.histories.check import check
from tests.histories.generated import history
from tests.histories.run_model import INNER

RUN = "r1"


def submit(
    start: float, end: float, *, run: str = RUN, outcome: Outcome = "ok", created: bool = True
) -> Call:
    seen = {run: Seen("QUEUED", 1, 50, {})} if outcome == "ok" else {}
    return Call("a", "submit", start, end, outcome, key="k", seen=seen, created=created and outcome == "ok")


def get(
    start: float, end: float, phase: str = "QUEUED", *, session: str = "a", attempt: int = 1,
    priority: int = 50, labels: dict[str, str] | None = None,
) -> Call:  # fmt: skip
    seen = {RUN: Seen(phase, attempt, priority, labels or {})}
    return Call(session, "get", start, end, "ok", RUN, seen=seen)


def set_priority(
    start: float, end: float, priority: int, *, outcome: Outcome = "ok", phase: str = "QUEUED"
) -> Call:
    seen = {RUN: Seen(phase, 1, priority, {})} if outcome == "ok" else {}
    return Call("a", "priority", start, end, outcome, RUN, given={"priority": priority}, seen=seen)


def set_labels(
    start: float, end: float, changes: dict[str, str], after: dict[str, str], session: str = "a"
) -> Call:
    seen = {RUN: Seen("QUEUED", 1, 50, after)}
    return Call(session, "labels", start, end, "ok", RUN, given={"labels": changes}, seen=seen)


def cancel(start: float, end: float, phase: str = "CANCELLED", *, outcome: Outcome = "ok") -> Call:
    seen = {RUN: Seen(phase, 1, 50, {})} if outcome == "ok" else {}
    return Call("a", "cancel", start, end, outcome, RUN, seen=seen)


MADE = submit(0, 1)
REFUSED = {
    "a session does not see its own write": [MADE, set_priority(2, 3, 9), get(4, 5, priority=50)],
    "a session goes back": [MADE, get(2, 3, "RUNNING"), get(4, 5, "QUEUED")],
    "a read from the future": [MADE, get(2, 3, priority=9, session="b"), set_priority(4, 5, 9)],
    "a value that nobody wrote": [MADE, get(2, 3, priority=7)],
    "two runs for one key": [MADE, submit(2, 3, run="r2")],
    "two runs for one key, at the same time": [submit(0, 2), submit(1, 3, run="r2")],
    "the second submit made it again": [MADE, submit(2, 3)],
    "nothing made by the only submit": [submit(0, 1, created=False)],
    "a run that nobody submitted": [get(2, 3)],
    "a run seen before the only submit": [get(0, 1, session="b"), submit(2, 3, outcome="unknown")],
    "a cancel undone": [MADE, cancel(2, 3), get(4, 5, "QUEUED")],
    "a cancel undone by a requeue": [
        MADE, get(2, 3, "RUNNING"), cancel(4, 5, "CANCELLING"), get(6, 7, "QUEUED", attempt=2)],
    "a cancel that became a failure": [
        MADE, get(2, 3, "RUNNING"), cancel(4, 5, "CANCELLING"), get(6, 7, "FAILED")],
    "a run under way cancelled at once": [MADE, get(2, 3, "RUNNING"), cancel(4, 5, "CANCELLED")],
    "a run that ended twice": [MADE, get(2, 3, "COMPLETED"), get(4, 5, "FAILED")],
    "an attempt number that goes back": [MADE, get(2, 3, attempt=2), get(4, 5, "RUNNING", attempt=1)],
    "a label lost": [
        MADE, set_labels(2, 3, {"a": "x"}, {"a": "x"}), set_labels(4, 5, {"b": "y"}, {"b": "y"}, "b")],
    "a label lost in a read": [
        MADE, set_labels(2, 3, {"a": "x"}, {"a": "x"}), set_labels(4, 5, {"b": "y"}, {"a": "x", "b": "y"}),
        get(6, 7, labels={"a": "x"})],
    "a refusal of a run that waits": [
        MADE, cancel(2, 3), set_priority(4, 5, 9, outcome="refused"), cancel(6, 7, outcome="refused")],
    "not there after it was made": [MADE, Call("a", "get", 2, 3, "missing", RUN)],
    "a priority given to a run that has ended": [
        MADE, get(2, 3, "COMPLETED"), set_priority(4, 5, 9, phase="COMPLETED")],
    "two sessions that saw two orders": [
        MADE, set_priority(2, 9, 1, outcome="unknown"), set_priority(2, 9, 2, outcome="unknown"),
        get(10, 11, priority=1, session="b"), get(12, 13, priority=2, session="b"),
        get(14, 15, priority=1, session="b")],
}  # fmt: skip
ACCEPTED = {
    "a read of another session that lags": [MADE, set_priority(2, 3, 9), get(4, 5, priority=50, session="b")],
    "a read during the write, before it and after it": [
        MADE, set_priority(2, 9, 9), get(3, 4, priority=50, session="b"), get(5, 6, priority=9, session="b")],
    "a write without a reply that happened": [
        MADE, set_priority(2, 3, 9, outcome="unknown"), get(4, 5, priority=9)],
    "one that did not": [MADE, set_priority(2, 3, 9, outcome="unknown"), get(4, 5, priority=50)],
    "one that happened long after": [
        MADE, set_priority(2, 3, 9, outcome="unknown"), get(4, 5), get(6, 7), get(8, 9, priority=9)],
    "one that happened after a later one": [
        MADE, set_priority(2, 3, 9, outcome="unknown"), set_priority(4, 5, 7), get(6, 7, priority=9)],
    "a cancel without a reply": [
        MADE, cancel(2, 3, outcome="unknown"), get(4, 5, "RUNNING"), get(6, 7, "CANCELLED")],
    "a submit without a reply, asked again": [submit(0, 1, outcome="unknown"), submit(2, 3, created=False)],
    "a submit without a reply whose run is only seen": [submit(0, 1, outcome="unknown"), get(2, 3)],
    "a submit without a reply that did nothing": [submit(0, 1, outcome="unknown"), submit(2, 3)],
    "one key at the same time": [submit(0, 2), submit(1, 3, created=False)],
    "labels at the same time": [
        MADE, set_labels(2, 6, {"a": "x"}, {"a": "x", "b": "y"}),
        set_labels(3, 5, {"b": "y"}, {"b": "y"}, "b")],
    "a label removed": [MADE, set_labels(2, 3, {"a": "x"}, {"a": "x"}), set_labels(4, 5, {"a": ""}, {})],
    "a trainer that ended by itself while it was cancelled": [
        MADE, get(2, 3, "RUNNING"), cancel(4, 5, "CANCELLING"), get(6, 7, "COMPLETED")],
    "a cancel that came too late": [
        MADE, get(2, 3, "RUNNING"), cancel(4, 5, outcome="refused"), get(6, 7, "FAILED")],
    "phases and attempts that were passed unseen": [
        MADE, get(2, 3, "STALE", attempt=4), get(4, 5, "COMPLETED", attempt=6)],
    "a call that failed": [MADE, set_priority(2, 3, 9, outcome="failed"), get(4, 5)],
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_history_that_cannot_be_is_refused(name: str) -> None:
    assert check(REFUSED[name]).contradictions


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_history_that_can_be_is_accepted(name: str) -> None:
    assert not check(ACCEPTED[name]).contradictions


def test_a_lagging_read_is_refused_where_reads_are_to_be_linearizable() -> None:
    stale = ACCEPTED["a read of another session that lags"]
    assert check(stale, linearizable=True).contradictions


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_right_by_construction_is_accepted(seed: int) -> None:
    assert not check(history(seed, 40, 40), linearizable=True).contradictions
    assert not check(history(seed, 40, 40, lagging=True)).contradictions


def test_one_wrong_value_among_many_calls_is_found_and_shown_in_a_few_lines() -> None:
    calls = history(7, 30, 60)
    at = next(n for n, call in enumerate(calls) if n > 900 and call.operation == "get")
    run_id, shown = next(iter(calls[at].seen.items()))
    wrong = {run_id: shown._replace(labels={"c": "nobody wrote this"})}
    calls[at] = Call(calls[at].session, "get", calls[at].start, calls[at].end, "ok", run_id, seen=wrong)
    (found,) = check(calls).contradictions
    assert found.about == run_id
    assert len(found.calls) < 40
    assert "nobody wrote this" in str(found)


def test_a_contradiction_is_a_picture_that_can_be_read() -> None:
    idle = [get(at, at + 0.5, session="b") for at in (10, 11, 12)]
    (found,) = check([MADE, set_priority(2, 3, 9), *idle, get(14, 15, priority=50)]).contradictions
    lines = str(found).splitlines()
    assert len(lines) == 4
    assert re.search(
        r"a +0\.000 – +1\.000 s +├─*┤ +submit\(k\) → QUEUED attempt 1 priority 50 created", lines[1]
    )
    assert "priority(priority=9) → QUEUED attempt 1 priority 9" in lines[2]
    assert lines[3].endswith("get() → QUEUED attempt 1 priority 50")


def test_the_model_moves_as_the_rules_of_a_run_do() -> None:
    """Every transition that is not a client's is in the table, and there is no other."""
    asked_by_clients = {"RunSubmitted", "RunCancelRequested"}
    rules = {(a, b) for a, fact, b in transitions() if fact not in asked_by_clients and fact != "RunRequeued"}
    assert rules == {(a, b) for a, nexts in INNER.items() for b in nexts}
    assert {(a, b) for a, fact, b in transitions() if fact == "RunRequeued"} == {
        ("RUNNING", "QUEUED"),
        ("STALE", "QUEUED"),
    }
