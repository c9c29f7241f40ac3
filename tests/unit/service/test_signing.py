"""Who may write what, by signature: keys under a root, their limits, their end."""

from __future__ import annotations

import os

import pytest

from runspine.eventlog import CorruptError, Recorded, Version
from runspine.eventlog.admission import Admission, Admitted, accepted_history
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.signing import (
    Keyring,
    SigningKey,
    SigningKeyError,
    introduction,
    new_signing_key,
    roots_in,
    sealed_by,
)
from runspine.wire.v1.facts_pb2 import (
    AttemptStarted,
    Commit,
    Fact,
    KeyRevoked,
    RunQueued,
    SigningBegan,
    SubjectReleased,
    WorkerOnline,
)

ROOT = SigningKey(bytes(range(32)))
STREAMS = {"runs": "RUNS", "signers": "RUNS", "attempts": "ATTEMPTS", "workers": "ATTEMPTS"}


def key_of(role: str, **limits: object) -> SigningKey:
    return SigningKey.parse(new_signing_key(ROOT, role, 1, **limits))  # type: ignore[arg-type]


def message(subject: str, data: bytes, sequence: int = 1) -> Recorded:
    return Recorded(STREAMS[subject.partition(".")[0]], sequence, subject, data, digest_of(data), 0)


def queued(at: int = 5) -> Fact:
    return Fact(at=at, run_queued=RunQueued(attempt=1))


def commit(key: SigningKey | None, fact: Fact, subject: str = "runs.r", sequence: int = 1) -> Recorded:
    return message(subject, seal(Version(), [fact], "id", "w", subject=subject, key=key), sequence)


class Ring(Keyring):
    """A keyring of the root, and the log's words that it was given."""

    def __init__(self, *keys: SigningKey) -> None:
        super().__init__([ROOT.public])
        for key in keys:
            self.feed(message(f"signers.{key.id}", key.introduction))

    def begin(self, key: SigningKey, **last: int) -> None:
        fact = Fact(at=1, signing_began=SigningBegan(last=last))
        body = Commit(number=1, signer=key.id, facts=[fact]).SerializeToString(deterministic=True)
        self.feed(message("signers.begin", key.sign("signers.begin", body)))

    def revoke(self, key: SigningKey, **last: int) -> None:
        fact = Fact(at=2, key_revoked=KeyRevoked(last=last))
        self.feed(message(f"signers.{key.id}", sealed_by(ROOT, key.id, fact)))


def test_a_commit_of_an_introduced_key_counts_on_its_own_subject_only() -> None:
    key = key_of("orchestrator")
    ring = Ring(key)
    whole = commit(key, queued())
    assert ring.problem(whole) == ""
    assert "wrong signature" in ring.problem(message("runs.another", whole.data))


@pytest.mark.parametrize("place", [0, 10, -70, -65, -1])
def test_a_signed_commit_with_a_changed_byte_does_not_count(place: int) -> None:
    key = key_of("orchestrator")
    data = bytearray(commit(key, queued()).data)
    data[place] ^= 1
    with pytest.raises(CorruptError):
        accepted_history([message("runs.r", bytes(data))], Ring(key))


def test_bytes_after_the_signature_do_not_count() -> None:
    key = key_of("orchestrator")
    longer = commit(key, queued()).data + Commit(writer="x").SerializeToString()
    assert "wrong signature" in Ring(key).problem(message("runs.r", longer))


@pytest.mark.parametrize(
    ("role", "subject", "fact"),
    [
        ("worker", "runs.r", queued()),
        ("artifacts", "attempts.r", Fact(at=1, attempt_started=AttemptStarted(attempt=1))),
        ("orchestrator", "workers.w", Fact(at=1, worker_online=WorkerOnline(worker_id="w"))),
    ],
)
def test_a_key_signs_only_facts_of_its_service(role: str, subject: str, fact: Fact) -> None:
    key = key_of(role)
    assert f"the key of a {role} signs no commit on" in Ring(key).problem(commit(key, fact, subject))


def test_the_key_of_one_worker_does_not_sign_for_another() -> None:
    key = key_of("worker", worker_id="w1")
    ring = Ring(key)
    for worker, good in (("w1", True), ("w2", False)):
        started = Fact(at=1, attempt_started=AttemptStarted(attempt=1, worker_id=worker))
        assert (ring.problem(commit(key, started, "attempts.r")) == "") is good
        online = Fact(at=1, worker_online=WorkerOnline(worker_id=worker))
        assert (ring.problem(commit(key, online, f"workers.{worker}")) == "") is good


def test_a_key_that_nobody_introduced_does_not_count() -> None:
    stranger = SigningKey(os.urandom(32))
    assert "unknown key" in Ring().problem(commit(stranger, queued()))


def test_a_key_introduced_by_another_root_does_not_count() -> None:
    other = SigningKey(os.urandom(32))
    key = SigningKey(os.urandom(32))
    key.introduction = introduction(other, key.public, "orchestrator", at=1)
    assert not Ring(key).keys
    assert roots_in([message(f"signers.{key.id}", key.introduction)]) == {other.public}


def test_an_introduction_under_another_id_does_not_count() -> None:
    key = key_of("orchestrator")
    ring = Ring()
    ring.feed(message("signers.stolen", key.introduction))
    assert not ring.keys


def test_a_stated_digest_does_not_vouch_for_other_bytes() -> None:
    key, forger = key_of("orchestrator"), SigningKey(os.urandom(32))
    ring = Ring(key)
    forged = introduction(forger, forger.public, "orchestrator", at=1)
    swapped = forged.replace(forger.id.encode(), ROOT.id.encode())
    place = f"signers.{key.id}"
    ring.feed(Recorded("RUNS", 2, place, swapped, digest_of(key.introduction), 0))
    assert set(ring.keys) == {key.id}


def test_unsigned_commits_count_until_signing_began() -> None:
    key = key_of("orchestrator")
    ring = Ring(key)
    assert ring.problem(commit(None, queued(), sequence=7)) == ""
    ring.begin(key, RUNS=7)
    assert ring.problem(commit(None, queued(), sequence=7)) == ""
    assert "commit 1 is not signed" in ring.problem(commit(None, queued(), sequence=8))
    started = Fact(at=1, attempt_started=AttemptStarted(attempt=1))
    assert "not signed" in ring.problem(commit(None, started, "attempts.r", 1))


def test_only_the_first_beginning_of_an_orchestrator_counts() -> None:
    key, worker = key_of("orchestrator"), key_of("worker")
    ring = Ring(key, worker)
    ring.begin(worker, RUNS=99)
    assert ring.begun is None
    ring.begin(key, RUNS=7)
    ring.begin(key, RUNS=99)
    assert ring.begun == {"RUNS": 7}


def test_a_revoked_key_counts_up_to_the_positions_of_its_revocation() -> None:
    key = key_of("orchestrator")
    ring = Ring(key)
    ring.revoke(key, RUNS=10)
    ring.revoke(key, RUNS=1000)
    assert ring.problem(commit(key, queued(), sequence=10)) == ""
    assert "is revoked" in ring.problem(commit(key, queued(), sequence=11))


def test_a_revocation_that_arrives_before_its_introduction_counts() -> None:
    key, ring = key_of("orchestrator"), Ring()
    ring.revoke(key, RUNS=0)
    ring.feed(message(f"signers.{key.id}", key.introduction))
    assert "is revoked" in ring.problem(commit(key, queued()))


def test_a_key_does_not_revoke_keys() -> None:
    key = key_of("orchestrator")
    ring = Ring(key)
    fact = Fact(at=2, key_revoked=KeyRevoked())
    body = Commit(number=1, signer=key.id, facts=[fact]).SerializeToString(deterministic=True)
    ring.feed(message(f"signers.{key.id}", key.sign(f"signers.{key.id}", body)))
    assert ring.problem(commit(key, queued())) == ""


def test_facts_after_the_expiry_of_a_key_do_not_count() -> None:
    key = key_of("orchestrator", expires_at=100)
    ring = Ring(key)
    assert ring.problem(commit(key, queued(at=99))) == ""
    assert "has expired" in ring.problem(commit(key, queued(at=100)))


def test_only_the_root_releases_a_subject_once_signing_began() -> None:
    key = key_of("orchestrator")
    ring = Ring(key)
    ring.begin(key)
    released = Fact(at=1, subject_released=SubjectReleased(first=1, last=1))
    for signer, expected in ((key, Admitted.REJECTED), (None, Admitted.REJECTED), (ROOT, Admitted.RELEASED)):
        admission = Admission(authors=ring)
        assert admission.admit(message("runs.r", b"poison")) is Admitted.REJECTED
        assert admission.admit(commit(signer, released, sequence=2)) is expected
    assert "only releases" in ring.problem(commit(ROOT, queued()))


def test_nothing_on_the_subjects_of_keys_is_folded_or_quarantined() -> None:
    admission = Admission(authors=Ring())
    for data in (b"", b"\xff", key_of("worker").introduction):
        assert admission.admit(message("signers.k", data)) is Admitted.KEY
    assert not admission.quarantined


def test_without_a_root_nothing_is_checked() -> None:
    assert Keyring().problem(commit(SigningKey(os.urandom(32)), queued())) == ""


def test_a_key_that_is_none_is_refused_with_the_remedy() -> None:
    with pytest.raises(SigningKeyError, match="runspine signers make"):
        SigningKey.parse("no key")
    with pytest.raises(SigningKeyError, match="RUNSPINE_LOG_ROOT"):
        Keyring.parse("no key")
