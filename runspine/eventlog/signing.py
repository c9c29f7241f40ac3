"""Signatures of commits, and the keys that readers believe.

An operator's root key introduces the key of each writer by a commit on signers.<key id>, and revokes it
there. A commit on signers.* counts if its signature does, in any order: what else is there is passed over.
From the positions on that SigningBegan names, an unsigned commit does not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from runspine.eventlog.fact_kinds import RELEASED
from runspine.eventlog.port import CorruptError, Recorded
from runspine.eventlog.subjects import SIGNERS
from runspine.wire.v1.facts_pb2 import Commit, Fact, KeyIntroduced

# The last field of a signed commit: number 15, 64 bytes.
_FIELD = b"\x7a\x40"
_SIGNATURE_BYTES = 64
_CONTEXT = b"runspine commit 1\0"
# Commits that were verified, which are not verified again when their subject is read.
MAX_VERIFIED = 1 << 15
ROOT = "root"
# Which subjects the key of each role may write.
PREFIXES: dict[str, tuple[str, ...]] = {
    "orchestrator": ("runs", "keys", "notice_requests"),
    "worker": ("attempts", "workers"),
    "artifacts": ("artifacts",),
    "janitor": ("artifacts",),
    "notices": ("notices",),
    "launcher": ("placements",),
}


class SigningKeyError(Exception):
    """A signing key that cannot be used."""


def key_id_of(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:32]


class SigningKey:
    """A private key, and the message that introduces it to the log."""

    def __init__(self, seed: bytes, introduction: bytes = b"") -> None:
        self.seed = seed
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()
        self.id = key_id_of(self.public)
        self.introduction = introduction

    @classmethod
    def parse(cls, text: str) -> SigningKey:
        """From the form that `RUNSPINE_SIGNING_KEY` has. Raises SigningKeyError."""
        seed, _, introduction = text.partition(":")
        try:
            return cls(bytes.fromhex(seed), bytes.fromhex(introduction))
        except ValueError as error:
            raise SigningKeyError(
                "RUNSPINE_SIGNING_KEY is not a key: make one with `runspine signers make`"
            ) from error

    def sign(self, subject: str, body: bytes) -> bytes:
        """The bytes of a commit on this subject with their signature."""
        return body + _FIELD + self._key.sign(_message(subject, body))

    def sign_message(self, message: bytes) -> bytes:
        """The signature of a message that is no commit; it begins with a context of its own."""
        return self._key.sign(message)


def new_signing_key(root: SigningKey, role: str, at: int, *, worker_id: str = "", expires_at: int = 0) -> str:
    """A new key with its introduction, in the form of RUNSPINE_SIGNING_KEY."""
    seed = os.urandom(32)
    made = introduction(
        root, SigningKey(seed).public, role, worker_id=worker_id, expires_at=expires_at, at=at
    )
    return f"{seed.hex()}:{made.hex()}"


def introduction(
    root: SigningKey, public: bytes, role: str, *, worker_id: str = "", expires_at: int = 0, at: int
) -> bytes:
    """The message by which the root introduces a key; the writer publishes it on signers.<key id>."""
    fact = KeyIntroduced(
        public_key=public, role=role, worker_id=worker_id, expires_at=expires_at, root=root.public
    )
    return sealed_by(root, key_id_of(public), Fact(at=at, key_introduced=fact))


def sealed_by(root: SigningKey, key_id: str, fact: Fact) -> bytes:
    """A commit on signers.<key id>, signed by the root."""
    body = Commit(id=f"{key_id}-{fact.at}", number=1, writer="operator", signer=root.id, facts=[fact])
    return root.sign(f"{SIGNERS}{key_id}", body.SerializeToString(deterministic=True))


def roots_in(messages: Iterable[Recorded]) -> set[bytes]:
    """Public keys of the roots that have introduced keys in these messages of signers.*, each by a good
    signature."""
    found = set()
    for recorded in messages:
        with contextlib.suppress(CorruptError, ValueError):
            roots = {fact.key_introduced.root for fact in recorded.commit.facts}
            for public in roots - {b""}:
                keyring = Keyring([public])
                keyring.feed(recorded)
                if keyring.keys:
                    found.add(public)
    return found


def _message(subject: str, body: bytes) -> bytes:
    return _CONTEXT + subject.encode() + b"\0" + body


@dataclass(slots=True)
class KnownKey:
    """A key that the root has introduced."""

    introduced: KeyIntroduced
    public: Ed25519PublicKey
    # By stream: the last position at which its commits count; None while it is not revoked.
    revoked: Mapping[str, int] | None = None


class Keyring:
    """The keys that count, and the decision on each commit. Without roots, nothing is checked."""

    def __init__(self, roots: Iterable[bytes] = ()) -> None:
        self.roots = {key_id_of(public): Ed25519PublicKey.from_public_bytes(public) for public in roots}
        self.keys: dict[str, KnownKey] = {}
        # By stream: the last position at which an unsigned commit counts; None before signing began.
        self.begun: dict[str, int] | None = None
        self._revoked: dict[str, Mapping[str, int]] = {}
        # Commits with a good signature, by subject and digest; and at which position and under which keys the
        # commit counted, once it did.
        self._verified: OrderedDict[tuple[str, bytes], tuple[int, int]] = OrderedDict()
        self._generation = 1

    @classmethod
    def parse(cls, text: str) -> Keyring:
        """From the form that `RUNSPINE_LOG_ROOT` has. Raises SigningKeyError."""
        try:
            return cls(bytes.fromhex(each.strip()) for each in text.split(",") if each.strip())
        except ValueError as error:
            raise SigningKeyError(
                "RUNSPINE_LOG_ROOT is not a public key in hex; `runspine signers root` prints it"
            ) from error

    def feed(self, recorded: Recorded) -> None:
        """Take a message on signers.*; one that does not count is passed over."""
        try:
            commit = recorded.commit
        except CorruptError:
            return
        if commit.signer in self.roots:
            if self._is_signed_by(self.roots[commit.signer], recorded, commit):
                self._take(recorded.subject.removeprefix(SIGNERS), commit)
        elif commit.signer in self.keys:
            key = self.keys[commit.signer]
            if key.introduced.role == "orchestrator" and self._is_signed_by(key.public, recorded, commit):
                self._begin(commit)

    def knows(self, key_id: str) -> bool:
        return key_id in self.keys or key_id in self.roots

    def problem(self, recorded: Recorded) -> str:
        """Why the author of this commit does not count; empty when it does. It decodes."""
        if not self.roots:
            return ""
        place, counted = (recorded.subject, recorded.computed_digest), (recorded.sequence, self._generation)
        if self._verified.get(place) == counted:
            return ""
        problem = self._problem(recorded, recorded.commit)
        if not problem and place in self._verified:
            self._verified[place] = counted
        return problem

    def _problem(self, recorded: Recorded, commit: Commit) -> str:
        if not commit.signer:
            return self._unsigned_problem(recorded)
        if commit.signer in self.roots:
            key, problem = self.roots[commit.signer], _root_problem(commit)
        elif commit.signer in self.keys:
            known = self.keys[commit.signer]
            key, problem = known.public, _key_problem(known, recorded)
        else:
            return f"commit {commit.number} is signed with the unknown key {commit.signer[:64]!r}"
        if not problem and not self._is_signed_by(key, recorded, commit):
            problem = f"commit {commit.number} has a wrong signature"
        return problem

    def note_own(self, subject: str, digest: bytes) -> None:
        """A commit that this process has signed is not verified again."""
        self._verified[subject, digest] = (0, 0)
        if len(self._verified) > MAX_VERIFIED:
            self._verified.popitem(last=False)

    def _unsigned_problem(self, recorded: Recorded) -> str:
        if self.begun is None or recorded.sequence <= self.begun.get(recorded.stream, 0):
            return "" if not _releases(recorded.commit) or self.begun is None else "an unsigned release"
        return f"commit {recorded.commit.number} is not signed"

    def _is_signed_by(self, key: Ed25519PublicKey, recorded: Recorded, commit: Commit) -> bool:
        # Not the digest that the message states, which is anybody's word.
        place = (recorded.subject, recorded.computed_digest)
        if place in self._verified:
            self._verified.move_to_end(place)
            return True
        body, field = recorded.data[: -_SIGNATURE_BYTES - 2], recorded.data[-_SIGNATURE_BYTES - 2 :]
        if field != _FIELD + commit.signature:
            return False
        try:
            key.verify(commit.signature, _message(recorded.subject, body))
        except InvalidSignature:
            return False
        self.note_own(*place)
        return True

    def _take(self, key_id: str, commit: Commit) -> None:
        self._generation += 1
        for fact in commit.facts:
            if fact.HasField("key_introduced") and key_id_of(fact.key_introduced.public_key) == key_id:
                public = Ed25519PublicKey.from_public_bytes(fact.key_introduced.public_key)
                self.keys[key_id] = KnownKey(fact.key_introduced, public, self._revoked.get(key_id))
            elif fact.HasField("key_revoked"):
                # The first word counts: a later one cannot let commits count again.
                revoked = self._revoked.setdefault(key_id, dict(fact.key_revoked.last))
                if key_id in self.keys:
                    self.keys[key_id].revoked = revoked

    def _begin(self, commit: Commit) -> None:
        self._generation += 1
        for fact in commit.facts:
            if fact.HasField("signing_began") and self.begun is None:
                self.begun = dict(fact.signing_began.last)


def _releases(commit: Commit) -> bool:
    return any(fact.HasField(RELEASED) for fact in commit.facts)


def _root_problem(commit: Commit) -> str:
    if all(fact.HasField(RELEASED) for fact in commit.facts):
        return ""
    return f"commit {commit.number} is signed by the root key, which only releases subjects"


def _key_problem(known: KnownKey, recorded: Recorded) -> str:
    """Why a key does not sign for this commit, whatever its signature."""
    commit, introduced = recorded.commit, known.introduced
    prefix, _, key = recorded.subject.partition(".")
    if prefix not in PREFIXES.get(introduced.role, ()):
        return f"the key of a {introduced.role[:20]} signs no commit on {prefix}.*"
    if introduced.worker_id and not _is_of_worker(introduced.worker_id, prefix, key, commit):
        return f"the key of worker {introduced.worker_id} signs a commit of another worker"
    if _releases(commit):
        return "only the root key releases a subject"
    if known.revoked is not None and recorded.sequence > known.revoked.get(recorded.stream, 0):
        return f"key {commit.signer} of {introduced.role} is revoked"
    if introduced.expires_at and any(fact.at >= introduced.expires_at for fact in commit.facts):
        return f"key {commit.signer} of {introduced.role} has expired"
    return ""


def _is_of_worker(worker_id: str, prefix: str, key: str, commit: Commit) -> bool:
    if prefix == "workers":
        return key == worker_id
    started = (fact.attempt_started for fact in commit.facts if fact.HasField("attempt_started"))
    return all(each.worker_id == worker_id for each in started)
