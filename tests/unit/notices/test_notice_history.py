"""The notices of one run: due once, one at a time for each target, in order, dead after so many tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runspine.notice.history import (
    MAX_PAUSE_SECONDS,
    MICROS,
    NoticeHistory,
    become_due,
    claim,
    failed,
    sent,
)
from runspine.wire.v1.facts_pb2 import Fact, NoticeDue, NoticeRetryRequested
from runspine.wire.v1.trainer_pb2 import DEAD, PENDING, SENT


def due(number: int, target: str = "a") -> NoticeDue:
    return NoticeDue(id=f"{target}{number}", run_id="r", target=target)


def folded(history: NoticeHistory, facts: list[Fact]) -> list[Fact]:
    for fact in facts:
        history.apply(fact)
    return facts


def test_a_notice_is_due_once_and_numbered_in_order() -> None:
    history = NoticeHistory()
    folded(history, become_due(history, [due(1), due(2), due(1)], 1))
    folded(history, become_due(history, [due(2), due(3)], 2))
    assert [(entry.due.id, entry.due.number) for entry in history.entries.values()] == [
        ("a1", 1),
        ("a2", 2),
        ("a3", 3),
    ]
    assert become_due(history, [due(3)], 3) == []


def test_only_the_first_of_a_target_is_claimed_and_only_by_one_process() -> None:
    history = NoticeHistory()
    folded(history, become_due(history, [due(1), due(2), due(1, "b")], 0))
    assert claim(history, "a2", "me", 0, 10) == []
    assert claim(history, "b1", "me", 0, 10)
    assert folded(history, claim(history, "a1", "me", 0, 10))
    assert claim(history, "a1", "another", 10 * MICROS - 1, 10) == []
    assert claim(history, "a1", "me", 1, 10)
    assert claim(history, "a1", "another", 10 * MICROS, 10)
    folded(history, sent(history, "a1", 5))
    assert claim(history, "a1", "another", 10 * MICROS, 10) == []
    assert claim(history, "a2", "another", 5, 10)


def test_tries_are_spaced_and_a_dead_one_makes_room_until_it_is_asked_for() -> None:
    history = NoticeHistory()
    folded(history, become_due(history, [due(1), due(2)], 0))
    for tried in (1, 2):
        [fact] = folded(history, failed(history, "a1", "503", 0, max_tries=3, first_pause=2))
        assert fact.notice_failed.retry_at == tried * 2 * MICROS
        assert claim(history, "a1", "me", fact.notice_failed.retry_at - 1, 10) == []
        assert claim(history, "a1", "me", fact.notice_failed.retry_at, 10)
    folded(history, failed(history, "a1", "503", 0, max_tries=3, first_pause=2))
    entry = history.entries["a1"]
    assert (entry.state, entry.tries, entry.reason) == (DEAD, 3, "503")
    assert claim(history, "a2", "me", 1, 10)
    history.apply(Fact(at=7, notice_retry_requested=NoticeRetryRequested(id="a1")))
    assert (entry.state, entry.tries) == (PENDING, 0)
    folded(history, sent(history, "a1", 8))
    history.apply(Fact(at=9, notice_retry_requested=NoticeRetryRequested(id="a1")))
    assert entry.state == SENT


def test_the_pause_has_an_upper_bound() -> None:
    history = NoticeHistory()
    folded(history, become_due(history, [due(1)], 0))
    for _ in range(40):
        [fact] = folded(history, failed(history, "a1", "", 0, max_tries=100, first_pause=5))
    assert fact.notice_failed.retry_at == MAX_PAUSE_SECONDS * MICROS


@given(st.lists(st.tuples(st.sampled_from(["due", "claim", "sent", "failed"]), st.integers(1, 4))))
def test_what_was_sent_stays_sent_and_in_order(steps: list[tuple[str, int]]) -> None:
    history, order = NoticeHistory(), []
    for at, (what, number) in enumerate(steps):
        notice_id = f"a{number}"
        if what == "due":
            folded(history, become_due(history, [due(number)], at))
        elif what == "claim":
            folded(history, claim(history, notice_id, "me", at, 1))
        elif history.entries.get(notice_id) in history.heads():
            if what == "sent":
                order += [f.notice_sent.id for f in folded(history, sent(history, notice_id, at))]
            else:
                folded(history, failed(history, notice_id, "", at, max_tries=1000, first_pause=1))
    numbers = [history.entries[notice_id].due.number for notice_id in order]
    assert numbers == sorted(set(numbers))
    assert all(history.entries[notice_id].state == SENT for notice_id in order)
