"""Signed tree heads: what a stream held at a time, in the word of the service that anchors it."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature

from runspine.anchors.tree import MerkleTree
from runspine.eventlog.port import Recorded
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.eventlog.subjects import RUNS, signer_subject
from runspine.wire.v1.anchors_pb2 import TreeHead

_CONTEXT = b"runspine tree head 1\0"
# Roles whose keys sign tree heads.
ROLES = ("artifacts", "janitor")


def signed_head(series: str, stream: str, tree: MerkleTree, at: int, key: SigningKey | None) -> TreeHead:
    """The head of a tree; with a key, signed."""
    head = TreeHead(series=series, stream=stream, size=tree.size, root=tree.root(), at=at)
    if key is not None:
        head.signer = key.id
        head.signature = key.sign_message(_message(head))
    return head


def introduce_signer(keyring: Keyring, key_id: str, introduction: bytes) -> None:
    """Know a key by the message that introduces it, if a root has signed that."""
    if introduction and not keyring.knows(key_id):
        subject = signer_subject(key_id)
        keyring.feed(Recorded(RUNS, 0, subject, introduction, b"", 0))


def head_problem(head: TreeHead, keyring: Keyring | None) -> str:
    """Why a tree head does not count; empty when it does. Without roots, signatures are not verified."""
    if keyring is None or not keyring.roots:
        return ""
    known = keyring.keys.get(head.signer)
    if not head.signer:
        return "it is not signed"
    if known is None:
        return f"it is signed with the unknown key {head.signer[:64]!r}"
    if (role := known.introduced.role) not in ROLES:
        return f"the key of a {role[:20]} signs no tree head"
    if known.revoked is not None and head.size > known.revoked.get(head.stream, 0):
        return f"key {head.signer} of {role} is revoked"
    if known.introduced.expires_at and head.at >= known.introduced.expires_at:
        return f"key {head.signer} of {role} has expired"
    try:
        known.public.verify(head.signature, _message(head))
    except InvalidSignature:
        return "its signature is wrong"
    return ""


def _message(head: TreeHead) -> bytes:
    body = TreeHead()
    body.CopyFrom(head)
    body.ClearField("signature")
    return _CONTEXT + body.SerializeToString(deterministic=True)
