"""Proofs that a commit was on the log when a tree head was made; checked with the root's public key alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from runspine.anchors.heads import head_problem
from runspine.anchors.tree import inclusion_path, message_leaf, root_of_path
from runspine.eventlog.port import CorruptError, Recorded
from runspine.eventlog.signing import Keyring
from runspine.eventlog.subjects import RUNS
from runspine.wire.v1.anchors_pb2 import KeyMessage, LogProof, TreeHead
from runspine.wire.v1.facts_pb2 import Commit

FORMAT = "runspine-proof-1"


class ProofInvalidError(Exception):
    """A proof that does not prove what it states."""


@dataclass(frozen=True, slots=True)
class CheckedProof:
    """What a proof has proved."""

    stream: str
    position: int
    subject: str
    commit: Commit
    # Time of the tree head, in the word of its signer.
    at: int
    # Role of the key that signed the commit; empty when it is not signed.
    writer: str


def made_proof(
    head: TreeHead, recorded: Recorded, leaves: Iterable[bytes], keys: Sequence[KeyMessage]
) -> LogProof:
    """The proof of a message under a tree head, from all leaves of the tree in order."""
    return LogProof(
        format=FORMAT,
        head=head,
        position=recorded.sequence,
        subject=recorded.subject,
        commit=recorded.data,
        path=inclusion_path(leaves, recorded.sequence - 1),
        keys=keys,
    )


def to_text(proof: LogProof) -> str:
    """As JSON; bytes are in base64."""
    return json.dumps(MessageToDict(proof, preserving_proto_field_name=True), indent=1) + "\n"


def from_text(text: str) -> LogProof:
    """Raises ProofInvalidError."""
    try:
        proof: LogProof = ParseDict(json.loads(text), LogProof(), ignore_unknown_fields=True)
    except (ValueError, ParseError, RecursionError) as error:
        raise ProofInvalidError(f"it is not a proof of Runspine: {str(error)[:200]}") from error
    if proof.format != FORMAT:
        raise ProofInvalidError(f"its format is {proof.format[:40]!r}, and {FORMAT} is known")
    return proof


def checked(proof: LogProof, roots: Iterable[bytes]) -> CheckedProof:
    """What a proof proves under the roots that are trusted. Raises ProofInvalidError."""
    keyring = Keyring(roots)
    for key in proof.keys:
        keyring.feed(Recorded(RUNS, 0, key.subject, key.commit, b"", 0))
    if problem := head_problem(proof.head, keyring):
        raise ProofInvalidError(f"its tree head does not count: {problem}")
    leaf = message_leaf(proof.position, proof.subject, proof.commit)
    try:
        root = root_of_path(leaf, proof.position - 1, proof.head.size, proof.path)
    except ValueError as error:
        raise ProofInvalidError(f"its path does not fit: {error}") from error
    if root != proof.head.root:
        raise ProofInvalidError("the commit is not one of those that the tree head covers")
    recorded = Recorded(proof.head.stream, proof.position, proof.subject, proof.commit, b"", 0)
    try:
        commit = recorded.commit
    except CorruptError as error:
        raise ProofInvalidError("what it proves is not a commit") from error
    if problem := keyring.problem(recorded):
        raise ProofInvalidError(f"the commit does not count: {problem}")
    signer = keyring.keys.get(commit.signer)
    writer = signer.introduced.role if signer is not None else ""
    head = proof.head
    return CheckedProof(head.stream, proof.position, proof.subject, commit, head.at, writer)
