from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runspine.services.orchestrator.core.offer_plan import (
    PostedOffer,
    head_offers,
    plan_offers,
    waiting_runs,
)
from runspine.wire.v1.run_pb2 import QUEUED, RUNNING, Attempt, AttemptHistory, Offer, Run

names = st.sampled_from("abcdefgh")
offers = st.builds(Offer, run_id=names, attempt=st.integers(1, 2))


def key(offer: Offer) -> tuple[str, int]:
    return offer.run_id, offer.attempt


@given(st.lists(offers, unique_by=key, max_size=8), st.lists(offers, max_size=10))
def test_after_the_plan_exactly_the_wanted_offers_stand_in_order(
    wanted: list[Offer], standing: list[Offer]
) -> None:
    posted = [PostedOffer(sequence, offer) for sequence, offer in enumerate(standing, 1)]
    changes = plan_offers(wanted, posted)
    left = [p.offer for p in posted if p.sequence not in changes.withdraw]
    assert [key(o) for o in left + changes.publish] == [key(o) for o in wanted]


@given(st.lists(offers, unique_by=key, max_size=8))
def test_nothing_changes_when_all_is_as_wanted(wanted: list[Offer]) -> None:
    changes = plan_offers(wanted, [PostedOffer(n, offer) for n, offer in enumerate(wanted)])
    assert (changes.withdraw, changes.publish) == ([], [])


def queued(run_id: str, priority: int = 50, at: int = 0, **fields: object) -> Run:
    run = Run(id=run_id, phase=QUEUED, attempt=1, priority=priority, queued_at=at)
    for name, value in fields.items():
        setattr(run, name, value)
    return run


def test_higher_priority_goes_first_then_who_waited_longest() -> None:
    runs = [queued("late", at=3), queued("urgent", 90, at=9), queued("early", at=1), queued("idle", 0)]
    assert [r.id for r in waiting_runs(runs, {}, now=10)["default"]] == ["urgent", "early", "late", "idle"]


def test_a_run_that_was_taken_runs_or_backs_off_is_not_offered() -> None:
    taken = {"taken": AttemptHistory(attempts=[Attempt(number=1)])}
    runs = [queued("taken"), queued("backing-off", not_before=11), queued("free")]
    runs.append(Run(id="running", phase=RUNNING, attempt=1))
    assert [r.id for r in waiting_runs(runs, taken, now=10)["default"]] == ["free"]


def test_an_earlier_attempt_does_not_keep_the_next_one_from_being_offered() -> None:
    history = {"again": AttemptHistory(attempts=[Attempt(number=1)])}
    run = queued("again")
    run.attempt = 2
    assert [r.id for r in waiting_runs([run], history, now=0)["default"]] == ["again"]


def test_only_the_window_is_offered() -> None:
    queue = waiting_runs([queued(f"r{n:02d}", at=n) for n in range(20)], {}, now=0)["default"]
    assert [o.run_id for o in head_offers("default", queue, 3)] == ["r00", "r01", "r02"]
