"""Which messages of a subject count, whatever is put between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.eventlog import CorruptError, Recorded, Version
from runspine.eventlog.admission import Admission, Admitted, accepted_history, describe
from runspine.eventlog.chain import ChainVerifier, digest_of, seal
from runspine.wire.v1.facts_pb2 import AttemptStarted, Fact, RunQueued, RunSubmitted, SubjectReleased
from runspine.wire.v1.run_pb2 import ChainState

SUBJECT = "runs.r"


class Subject:
    """Messages of one subject, good and bad."""

    def __init__(self, subject: str = SUBJECT) -> None:
        self.subject = subject
        self.messages: list[Recorded] = []
        self.head = Version()

    def put(self, data: bytes, digest: bytes | None = None) -> Recorded:
        stated = digest_of(data) if digest is None else digest
        message = Recorded("RUNS", len(self.messages) + 1, self.subject, data, stated, 7)
        self.messages.append(message)
        return message

    def commit(self, *facts: Fact) -> Recorded:
        message = self.put(seal(self.head, facts or (queued(),), "id", "writer"))
        self.head = message.version()
        return message

    def release(self, first: int, last: int) -> Recorded:
        return self.commit(Fact(subject_released=SubjectReleased(first=first, last=last)))

    def accepted(self) -> list[int]:
        admission = Admission()
        return [m.sequence for m in self.messages if admission.admit(m) is not Admitted.REJECTED]


def queued() -> Fact:
    return Fact(at=1, run_queued=RunQueued(attempt=1))


def forged(head: Version, *facts: Fact) -> bytes:
    return seal(head, facts, "forged", "somebody")


def test_whole_commits_are_accepted_one_after_the_other() -> None:
    subject = Subject()
    for _ in range(5):
        subject.commit()
    assert subject.accepted() == [1, 2, 3, 4, 5]
    assert len(accepted_history(subject.messages)) == 5


@given(poison=st.binary(max_size=200), before=st.integers(0, 3), after=st.integers(0, 3))
def test_nothing_after_a_foreign_message_counts_whatever_it_is(
    poison: bytes, before: int, after: int
) -> None:
    subject = Subject()
    for _ in range(before):
        subject.commit()
    subject.put(poison)
    for _ in range(after):
        subject.commit()
    assert subject.accepted() == list(range(1, before + 1))
    with pytest.raises(CorruptError, match=f"RUNS {before + 1} on runs.r: .*events release runs.r") as raised:
        accepted_history(subject.messages)
    assert [each.sequence for each in raised.value.accepted] == list(range(1, before + 1))


@given(data=st.data())
def test_a_commit_with_one_changed_byte_does_not_count(data: st.DataObject) -> None:
    subject = Subject()
    subject.commit()
    whole = subject.commit(queued(), queued())
    place = data.draw(st.integers(0, len(whole.data) - 1))
    changed = bytearray(whole.data)
    changed[place] ^= data.draw(st.integers(1, 255))
    subject.messages[1] = Recorded("RUNS", 2, SUBJECT, bytes(changed), whole.digest, 7)
    subject.commit()
    assert subject.accepted() == [1]


def test_a_copy_of_the_first_commit_does_not_hide_what_came_before_it() -> None:
    subject = Subject()
    first = subject.commit()
    subject.commit()
    subject.put(first.data)
    assert subject.accepted() == [1, 2]


@pytest.mark.parametrize(
    ("subject", "fact"),
    [
        ("attempts.r", Fact(run_submitted=RunSubmitted(run_id="r"))),
        ("runs.r", Fact(attempt_started=AttemptStarted(attempt=1))),
        ("keys.k", Fact(run_queued=RunQueued(attempt=1))),
        ("workers.w", Fact(attempt_started=AttemptStarted(attempt=1))),
        ("runs.r", Fact(run_submitted=RunSubmitted(run_id="another"))),
    ],
)
def test_a_fact_on_a_subject_of_another_kind_does_not_count(subject: str, fact: Fact) -> None:
    messages = Subject(subject)
    messages.commit(fact)
    assert messages.accepted() == []


def test_a_fact_of_a_later_release_counts_and_changes_nothing() -> None:
    subject = Subject()
    subject.commit(Fact(at=1))
    subject.commit()
    assert subject.accepted() == [1, 2]


def test_an_operator_ends_a_quarantine_and_what_was_rejected_stays_rejected() -> None:
    subject = Subject()
    subject.commit()
    subject.put(b"poison")
    subject.put(forged(subject.head, queued())[:-1])
    subject.release(2, 3)
    subject.commit()
    assert subject.accepted() == [1, 4, 5]
    admission = Admission()
    found = [admission.admit(message) for message in subject.messages]
    assert found[3] is Admitted.RELEASED
    assert not admission.quarantined
    assert [admission.rejected(message) for message in subject.messages] == [False, True, True, False, False]
    assert [each.sequence for each in accepted_history(subject.messages)] == [1, 4, 5]


def test_a_release_of_other_positions_ends_nothing() -> None:
    subject = Subject()
    subject.commit()
    subject.put(b"poison")
    subject.put(b"unseen")
    head = subject.head
    subject.release(2, 2)
    subject.head = head
    assert subject.accepted() == [1]
    subject.release(2, 4)
    assert subject.accepted() == [1, 5]


def test_a_subject_that_never_existed_can_be_released() -> None:
    subject = Subject("keys.k")
    subject.put(b"poison")
    subject.release(1, 1)
    assert subject.accepted() == [2]


def test_the_state_of_a_reader_keeps_heads_and_quarantines() -> None:
    one, other = Subject("runs.a"), Subject("runs.b")
    admission = Admission()
    for message in (one.commit(), one.put(b"poison"), other.commit()):
        admission.admit(message)
    again = Admission(ChainState.FromString(admission.dump().SerializeToString()))
    assert again.admit(one.put(b"more")) is Admitted.REJECTED
    assert again.admit(other.commit()) is Admitted.ACCEPTED
    assert again.admit(one.release(2, 3)) is Admitted.RELEASED
    [quarantine] = again.quarantines
    assert (quarantine.first, quarantine.last, quarantine.messages, quarantine.released) == (2, 3, 2, 4)


def test_a_verifier_names_the_poison_and_reports_a_release_apart() -> None:
    subject = Subject()
    subject.commit()
    subject.put(b"poison")
    verifier = ChainVerifier("RUNS")
    for message in subject.messages:
        verifier.feed(message.sequence, message.subject, message.data, message.digest)
    assert [problem.sequence for problem in verifier.problems] == [2]
    for message in (subject.release(2, 2), subject.commit()):
        verifier.feed(message.sequence, message.subject, message.data, message.digest)
    assert verifier.finish(4) == []
    assert [problem.sequence for problem in verifier.released] == [2]


def test_a_reason_names_position_cause_and_remedy() -> None:
    admission = Admission()
    subject = Subject()
    subject.put(b"\xff")
    admission.admit(subject.messages[0])
    text = describe(admission.quarantined[SUBJECT])
    assert text.startswith("RUNS 1 on runs.r: commit 1 cannot be read")
    assert "the message at 1 with `runspine events release runs.r`" in text
