"""The term of the janitor: which process prunes by the rules. Pure.

The newest election on artifacts.janitor decides. A holder that is silent is replaced by the next term, and
what it planned before is refused: every fact of a janitor expects the ARTIFACTS stream to end where it has
read it. Design: docs/adr/0029-one-janitor-at-a-time.md
"""

from __future__ import annotations

from collections.abc import Iterable

from runspine.wire.v1.artifacts_pb2 import JanitorTerm
from runspine.wire.v1.facts_pb2 import Fact, JanitorElected, JanitorResigned

# The subject artifacts.janitor holds the elections.
JANITOR = "janitor"


class DeposedError(Exception):
    """The janitor's term is over: another process was elected, or may have been."""


def fold_term(facts: Iterable[Fact], term: JanitorTerm | None = None) -> JanitorTerm:
    """The term after these facts."""
    after = JanitorTerm()
    if term is not None:
        after.CopyFrom(term)
    for fact in facts:
        apply_term(after, fact)
    return after


def apply_term(term: JanitorTerm, fact: Fact) -> None:
    """Fold one fact in place."""
    match fact.WhichOneof("kind"):
        case "janitor_elected" if fact.janitor_elected.term > term.term:
            elected = fact.janitor_elected
            term.term, term.holder, term.since = elected.term, elected.holder, fact.at
        case "janitor_resigned" if fact.janitor_resigned.term == term.term:
            term.holder = ""


def elect(term: JanitorTerm, holder: str, silent: int, at: int) -> list[Fact]:
    """Elect `holder`, if the holder of term `silent` is still in office, or nobody is."""
    if term.holder == holder or (term.holder and term.term != silent):
        return []
    return [Fact(at=at, janitor_elected=JanitorElected(term=term.term + 1, holder=holder))]


def resign(term: JanitorTerm, holder: str, at: int) -> list[Fact]:
    """End the holder's own term; nothing when another has been elected."""
    if term.holder != holder:
        return []
    return [Fact(at=at, janitor_resigned=JanitorResigned(term=term.term, holder=holder))]
