"""Rules of notices: what is wrong with them, what they are about, and when a metric makes them hold."""

from __future__ import annotations

from typing import Any

import pytest

from runspine.eventlog import Recorded, Version
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.subjects import ATTEMPTS, RUNS
from runspine.notice.rules import EVENTS, METRIC_EVENTS, rules_problems
from runspine.services.notices.core.metric_rules import MetricFold
from runspine.services.notices.core.projection import NoticeProjection
from runspine.services.notices.core.triggers import Condition, StackRule
from runspine.wire.v1.facts_pb2 import (
    LIMIT,
    AttemptExited,
    AttemptProgressed,
    Counts,
    Fact,
    Progress,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunRequeued,
    RunStarted,
    RunSubmitted,
    RunWentStale,
)
from runspine.wire.v1.spec_pb2 import NoticeRule, RunSpec

THRESHOLD = {"on": "threshold", "channels": ["a"], "metric": "m"}
PLATEAU = {"on": "plateau", "channels": ["a"], "metric": "m"}


@pytest.mark.parametrize(
    ("rule", "field", "what"),
    [
        ({"on": "faild", "channels": ["a"]}, "on", "failed"),
        ({"on": "failed"}, "channels", "is missing"),
        ({"on": "failed", "channels": ["b"]}, "channels", "'b'"),
        ({"on": "failed", "channels": ["a", "a"]}, "channels", "twice"),
        ({"on": "failed", "channels": ["a"], "name": "x y"}, "name", "letters"),
        ({"on": "failed", "channels": ["a"], "metric": "loss"}, "metric", "no meaning"),
        ({"on": "failed", "channels": ["a"], "steps": 5}, "steps", "no meaning"),
        ({"on": "threshold", "channels": ["a"], "above": 1.0}, "metric", "is missing"),
        ({**THRESHOLD}, "above", "either"),
        ({**THRESHOLD, "above": 1.0, "below": 1.0}, "above", "either"),
        ({**THRESHOLD, "above": float("nan")}, "above", "finite"),
        ({**THRESHOLD, "above": 1.0, "goal": "max"}, "goal", "no meaning"),
        ({**PLATEAU}, "steps", "is missing"),
        ({**PLATEAU, "steps": 9, "goal": "up"}, "goal", "max"),
        ({**PLATEAU, "steps": 9, "drop": 1.0}, "drop", "no meaning"),
        ({**PLATEAU, "on": "collapse"}, "drop", "is missing"),
        ({**PLATEAU, "on": "collapse", "drop": -1.0}, "drop", "is missing"),
        ({**PLATEAU, "on": "collapse", "drop": 1.0, "points": 1001}, "points", "more than"),
        ({**PLATEAU, "on": "collapse", "drop": 1.0, "goal": "up"}, "goal", "max"),
        ({**PLATEAU, "on": "quiet"}, "minutes", "is missing"),
        ({**PLATEAU, "on": "quiet", "minutes": float("nan")}, "minutes", "is missing"),
        ({**PLATEAU, "on": "quiet", "minutes": 1.0, "goal": "max"}, "goal", "no meaning"),
        ({"on": "failed", "channels": ["a"], "minutes": 5.0}, "minutes", "no meaning"),
        ({**PLATEAU, "steps": 9, "min_delta": -1.0}, "min_delta", "at least 0"),
        ({"on": "failed", "labels": {"a b": "c"}}, "labels", "letters"),
        ({"on": "failed", "labels": {"a": "c\n"}}, "labels.a", "control"),
    ],
)  # fmt: skip
def test_a_wrong_rule_names_its_field(rule: dict[str, Any], field: str, what: str) -> None:
    [(path, problem)] = rules_problems([NoticeRule(**rule)], ["a"])
    assert path == f"[0].{field}"
    assert what in problem


def test_rules_without_channels_or_with_one_name_are_wrong() -> None:
    rule = NoticeRule(on="failed", channels=["a"], name="n")
    assert [path for path, _ in rules_problems([rule], [])] == [""]
    assert [path for path, _ in rules_problems([rule, rule], ["a"])] == ["[0].name", "[1].name"]
    assert not list(rules_problems([rule, NoticeRule(on="ended", stop=True)], ["a"]))


class Log:
    """Commits as they are on the log."""

    def __init__(self, projection: NoticeProjection) -> None:
        self.projection = projection
        self.sequence = 0

    def add(self, subject: str, *facts: Fact) -> None:
        self.sequence += 1
        data = seal(Version(), facts, f"c{self.sequence}", "test")
        stream = RUNS if subject.startswith("runs") else ATTEMPTS
        self.projection.apply(Recorded(stream, self.sequence, subject, data, digest_of(data), 0))


def submitted(**spec: Any) -> Fact:
    return Fact(at=1, run_submitted=RunSubmitted(run_id="r", name="cartpole", spec=RunSpec(**spec)))


FACTS = {
    "started": ("runs.r", Fact(run_started=RunStarted(attempt=1))),
    "retried": ("runs.r", Fact(run_requeued=RunRequeued(attempt=2))),
    "completed": ("runs.r", Fact(run_completed=RunCompleted())),
    "failed": ("runs.r", Fact(run_failed=RunFailed(reason="out of memory"))),
    "cancelled": ("runs.r", Fact(run_cancelled=RunCancelled())),
    "ended": ("runs.r", Fact(run_failed=RunFailed())),
    "stale": ("runs.r", Fact(run_went_stale=RunWentStale())),
    "stalled": (
        "attempts.r",
        Fact(attempt_exited=AttemptExited(outcome=LIMIT, reason="stalled: (limits.stall_seconds)")),
    ),
    "disk": (
        "attempts.r",
        Fact(attempt_exited=AttemptExited(outcome=LIMIT, reason="more than limits.disk_mib: 3")),
    ),
    "nan": (
        "attempts.r",
        Fact(attempt_progressed=AttemptProgressed(attempt=1, progress=Progress(counts=Counts(not_finite=2)))),
    ),
}


@pytest.mark.parametrize("event", [event for event in EVENTS if event not in METRIC_EVENTS])
def test_each_event_has_a_fact_and_gives_one_notice_for_each_target(event: str) -> None:
    projection = NoticeProjection()
    log = Log(projection)
    rule = NoticeRule(on=event, channels=["a", "b"], stop=True, labels={"seen": "yes"})
    log.add("runs.r", submitted(notify=[rule]))
    assert not projection.drafts
    subject, fact = FACTS[event]
    log.add(subject, fact)
    drafts = list(projection.drafts["r"].values())
    assert [draft.target for draft in drafts] == ["a", "b", "action/stop", "action/label"]
    assert {draft.event for draft in drafts} == {event}
    assert dict(drafts[3].labels) == {"seen": "yes"}
    assert len({draft.id for draft in drafts}) == 4


def test_an_attempt_with_nan_in_many_reports_gives_one_notice() -> None:
    projection = NoticeProjection()
    log = Log(projection)
    log.add("runs.r", submitted(notify=[NoticeRule(on="nan", channels=["a"])]))
    for _ in range(5):
        log.add(*FACTS["nan"])
    assert len(projection.drafts["r"]) == 1


def test_a_rule_of_the_operator_is_about_runs_that_match_and_facts_after_it() -> None:
    rule = NoticeRule(on="failed", channels=["a"])
    where = Condition(project="p", labels={"team": "x"})
    for after, spec, wanted in (
        (1, {"project": "p", "labels": {"team": "x"}}, 1),
        (2, {"project": "p", "labels": {"team": "x"}}, 0),
        (1, {"project": "q", "labels": {"team": "x"}}, 0),
        (1, {"project": "p"}, 0),
    ):
        projection = NoticeProjection((StackRule("n", rule, where, {RUNS: after}),))
        log = Log(projection)
        log.add("runs.r", submitted(**spec))
        log.add(*FACTS["failed"])
        assert len(projection.drafts.get("r", ())) == wanted


def test_a_fact_of_an_attempt_whose_run_is_not_known_is_kept_for_later() -> None:
    projection = NoticeProjection()
    Log(projection).add(*FACTS["nan"])
    assert [each.subject for each in projection.unplaced] == ["attempts.r"]


def fed(rule: NoticeRule, *points: tuple[int, float]) -> list[str]:
    fold = MetricFold(rule)
    return [fold.feed(step, value) for step, value in points]


def test_a_threshold_holds_at_the_first_point_beyond_it() -> None:
    above = NoticeRule(on="threshold", metric="m", above=10)
    assert fed(above, (1, 9.0), (2, 10.0), (3, float("nan")), (4, float("inf")))[:4] == ["", "", "", ""]
    assert "m is 10.5 at step 1,000, above 10" in fed(above, (1000, 10.5))
    below = NoticeRule(on="threshold", metric="m", below=0)
    assert fed(below, (1, 0.0), (2, -1.0)) == ["", "m is -1 at step 2, below 0"]


def test_a_plateau_holds_when_nothing_got_better_for_so_many_steps() -> None:
    rule = NoticeRule(on="plateau", metric="m", steps=100, min_delta=0.5)
    found = fed(rule, (0, 1.0), (50, 2.0), (149, 2.4), (150, 2.5))
    assert found[:3] == ["", "", ""]
    assert "was not better than 2 of step 50 for 100 steps" in found[3]
    lower = NoticeRule(on="plateau", metric="m", steps=100, goal="min")
    assert fed(lower, (0, 5.0), (99, 4.0), (198, 4.0))[-1] == ""
    assert fed(lower, (0, 5.0), (99, 4.0), (199, 4.0))[-1]


def test_a_collapse_holds_when_the_mean_is_worse_than_its_best_by_so_much() -> None:
    rule = NoticeRule(on="collapse", metric="m", drop=5, points=2)
    found = fed(rule, (0, 0.0), (1, 10.0), (2, 10.0), (3, -9.0), (4, 19.0), (5, -9.0), (6, 4.0))
    # One bad point between good ones is no collapse; the means are 5, 10, 0.5, 5, 5, -2.5.
    assert [bool(each) for each in found] == [False, False, False, True, True, True, True]
    assert found[3] == "m is 0.5 at step 3 (mean of 2 points), and was 10 at step 2"
    lower = NoticeRule(on="collapse", metric="m", drop=1, points=1, goal="min")
    assert fed(lower, (0, 5.0), (1, 4.0), (2, 4.5)) == ["", "", ""]
    assert fed(lower, (0, 5.0), (1, 4.0), (2, float("nan")), (3, 5.0))[3]
    assert not any(fed(NoticeRule(on="collapse", metric="m", drop=1), *((at, -at) for at in range(19))))


def test_a_quiet_holds_when_a_training_run_has_had_no_point_for_so_many_minutes() -> None:
    fold = MetricFold(NoticeRule(on="quiet", metric="episode/return", minutes=10))
    minute = 60_000_000
    since = 1000 * minute
    assert fold.quiet(since + 9 * minute, since) == ""
    assert fold.quiet(since + 10 * minute, since) == "episode/return has had no point for 10 minutes"
    fold.newest = since + 5 * minute
    assert fold.quiet(since + 10 * minute, since) == ""
    assert fold.quiet(since + 15 * minute, since) == "episode/return has had no further point for 10 minutes"
    # Another attempt has just begun: what was before it does not count.
    assert fold.quiet(since + 60 * minute, since + 55 * minute) == ""
    assert fold.feed(1, 1.0) == ""
    assert MetricFold(NoticeRule(on="plateau", metric="m", steps=1)).quiet(since, 0) == ""
