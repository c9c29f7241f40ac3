"""The term of the janitor: one holder at a time, and one that is gone or silent is replaced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runspine.domain.janitor import elect, fold_term, resign
from runspine.wire.v1.artifacts_pb2 import JanitorTerm
from runspine.wire.v1.facts_pb2 import Fact

NAMES = ["a", "b", "c"]
# A candidate, what it does, and how many terms behind the log it has read.
MOVES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["elect", "resign"]), st.integers(0, 3)))


def history(moves: list[tuple[str, str, int]]) -> list[Fact]:
    facts: list[Fact] = []
    for at, (name, act, behind) in enumerate(moves):
        term = fold_term(facts)
        if act == "resign":
            facts += resign(term, name, at)
        else:
            facts += elect(term, name, max(term.term - behind, 0), at)
    return facts


@given(MOVES)
def test_terms_count_up_and_each_has_one_holder(moves: list[tuple[str, str, int]]) -> None:
    elected = [f.janitor_elected for f in history(moves) if f.HasField("janitor_elected")]
    assert [each.term for each in elected] == list(range(1, len(elected) + 1))


@given(MOVES)
def test_nobody_is_deposed_by_a_candidate_that_has_not_read_its_term(
    moves: list[tuple[str, str, int]],
) -> None:
    term = fold_term(history(moves))
    if term.holder and term.term:
        other = next(name for name in NAMES if name != term.holder)
        assert elect(term, other, term.term - 1, 1) == []


@given(MOVES)
def test_a_resigned_holder_is_replaced_at_once_and_a_silent_one_when_it_is_found_silent(
    moves: list[tuple[str, str, int]],
) -> None:
    facts = history(moves)
    term = fold_term(facts)
    other = next(name for name in NAMES if name != term.holder)
    silent = term.term if term.holder else 0
    after = fold_term([*facts, *elect(term, other, silent, 99)])
    assert (after.term, after.holder, after.since) == (term.term + 1, other, 99)


@given(MOVES)
def test_folding_in_two_parts_is_folding_at_once(moves: list[tuple[str, str, int]]) -> None:
    facts = history(moves)
    half = len(facts) // 2
    assert fold_term(facts[half:], fold_term(facts[:half])) == fold_term(facts)


def test_a_command_given_twice_changes_nothing() -> None:
    first = fold_term(elect(JanitorTerm(), "a", 0, 1))
    assert elect(first, "a", first.term, 2) == []
    gone = fold_term(resign(first, "a", 3), first)
    assert (gone.term, gone.holder) == (1, "")
    assert resign(gone, "a", 4) == []


def test_a_deposed_holder_cannot_resign_the_term_of_another() -> None:
    first = fold_term(elect(JanitorTerm(), "a", 0, 1))
    second = fold_term(elect(first, "b", first.term, 2), first)
    assert resign(second, "a", 3) == []
    late = fold_term(resign(first, "a", 3), second)
    assert late.holder == "b"
