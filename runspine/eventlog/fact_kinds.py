"""Which facts belong on which subjects. Pure."""

from __future__ import annotations

from runspine.wire.v1.facts_pb2 import Commit, Fact

# First part of a subject, and the field numbers of the facts on it.
_NUMBERS = {
    "runs": range(10, 40),
    "attempts": range(40, 50),
    "workers": range(50, 60),
    "artifacts": range(60, 90),
    "signers": range(91, 95),
    "audit": range(95, 100),
    "notices": range(100, 105),
    "notice_requests": range(105, 110),
    "placements": range(118, 119),
}
_KEY_RESERVED = "key_reserved"
RELEASED = "subject_released"


def _kinds() -> dict[str, str]:
    found = {}
    for field in Fact.DESCRIPTOR.oneofs_by_name["kind"].fields:
        for prefix, numbers in _NUMBERS.items():
            if field.number in numbers:
                found[field.name] = prefix
    return found | {_KEY_RESERVED: "keys"}


PREFIX_OF = _kinds()


def misplaced_fact(subject: str, commit: Commit) -> str:
    """Why these facts cannot be on this subject; empty when they can. Facts of later releases are unknown."""
    prefix, _, key = subject.partition(".")
    for fact in commit.facts:
        kind = fact.WhichOneof("kind")
        if kind is None or kind == RELEASED:
            continue
        if PREFIX_OF.get(kind) != prefix:
            return f"{kind} is not a fact of {prefix}.*"
        if kind == "run_submitted" and fact.run_submitted.run_id != key:
            return f"run_submitted is of another run, {fact.run_submitted.run_id[:64]!r}"
    return ""


def release_in(commit: Commit) -> tuple[int, int] | None:
    """The positions that the commit releases, if it does."""
    for fact in commit.facts:
        if fact.HasField(RELEASED):
            return fact.subject_released.first, fact.subject_released.last
    return None
