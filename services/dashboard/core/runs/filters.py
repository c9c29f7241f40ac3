"""The filter line of the list of runs: `lr<1e-3 return>200 state:failed "some words" -label:x`. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import translate
from operator import ge, gt, le, lt

from runspine.domain.run import ACTIVE, ENDED
from runspine.errors import InvalidError
from runspine.services.dashboard.core.run_table import RunTableEntry
from runspine.services.dashboard.core.runs.columns import (
    ALIASES,
    DURATION,
    FIXED,
    LABELS,
    PARAM_ALIASES,
    PARAMS,
    TIME,
    Cell,
    RunColumn,
    column,
)
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import enum_word
from runspine.wire.v1.run_pb2 import Phase

Accepts = Callable[[RunTableEntry], bool]
MAX_TERMS, MAX_LENGTH = 32, 1000
_TERM = re.compile(
    r"""\s*(?P<not>-)?"""
    r"""(?:(?P<key>[A-Za-z_][\w./-]*)(?P<op><=|>=|!=|[:=<>])(?P<value>"[^"]*"?|[^\s"]*)"""
    r"""|(?P<word>"[^"]*"?|[^\s"]+))"""
)
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)([kMG%]|ms|s|m|h|d)?\Z", re.IGNORECASE)
_SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "%": 0.01}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
COMPARE: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
# What `state:` accepts besides the phases themselves.
STATE_GROUPS = {
    name: tuple(enum_word(Phase.DESCRIPTOR, phase) for phase in phases)
    for name, phases in (("active", ACTIVE), ("ended", ENDED))
}


@dataclass(frozen=True, slots=True)
class Filter:
    """All terms must hold."""

    terms: tuple[Accepts, ...] = ()

    def accepts(self, entry: RunTableEntry) -> bool:
        return all(term(entry) for term in self.terms)


def parse_filter(text: str, params: Collection[str] = (), labels: Collection[str] = ()) -> Filter:
    """The filter of a line; `params` and `labels` are the names that runs have.

    Raises InvalidError, naming the term.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidError(f"q: longer than {MAX_LENGTH} characters")
    terms: list[Accepts] = []
    at = 0
    while text[at:].strip():
        match = _TERM.match(text, at)
        if match is None:
            raise InvalidError(f"q: cannot be read at {text[at:].strip()[:40]!r}")
        at = match.end()
        term = _term(match, params, labels)
        terms.append(_negated(term) if match["not"] else term)
    if len(terms) > MAX_TERMS:
        raise InvalidError(f"q: more than {MAX_TERMS} terms")
    return Filter(tuple(terms))


def _negated(term: Accepts) -> Accepts:
    return lambda entry: not term(entry)


def _term(match: re.Match[str], params: Collection[str], labels: Collection[str]) -> Accepts:
    key, operator, value = match["key"], match["op"], match["value"] or match["word"] or ""
    quoted = value.startswith('"')
    value = value.strip('"')
    if key is None:
        wanted = value.casefold()
        return lambda entry: wanted in entry.search_text
    found = find_column(key, params, labels)
    if operator in COMPARE:
        return _ordered(found, operator, value)
    return _equal(found, value, quoted, operator == "!=")


def find_column(key: str, params: Collection[str], labels: Collection[str]) -> RunColumn:
    """The column that a key names: a column, a parameter or a label. Raises InvalidError."""
    name = ALIASES.get(key, key)
    known = column(name)
    if known is None:
        short = PARAM_ALIASES.get(key, key)
        name = next(
            (
                prefix + word
                for prefix, word, names in (
                    (PARAMS, key, params),
                    (PARAMS, short, params),
                    (LABELS, key, labels),
                )
                if word in names
            ),
            "",
        )
        known = column(name)
    if known is None:
        raise InvalidError(
            f"q: {key!r} is no column, parameter or label: {not_accepted(key, [*FIXED, *params, *labels])}"
        )
    return known


def _ordered(found: RunColumn, operator: str, text: str) -> Accepts:
    bound = _number(text, found.kind)
    if bound is None:
        raise InvalidError(f"q: {found.name}{operator}{text}: {text!r} is no number")
    compare = COMPARE[operator]

    def accepts(entry: RunTableEntry) -> bool:
        value = found.read(entry)
        return isinstance(value, int | float) and not isinstance(value, bool) and compare(value, bound)

    return accepts


def _equal(found: RunColumn, text: str, quoted: bool, negated: bool) -> Accepts:
    """Any of several values, separated by commas; `*` stands for anything; an empty one for no value."""
    choices = [text] if quoted else text.split(",")
    if found.name == "state":
        choices = _state_words(choices)
    tests = [_one_of(choice, found.kind) for choice in choices]

    def accepts(entry: RunTableEntry) -> bool:
        value = found.read(entry)
        return any(test(value) for test in tests) != negated

    return accepts


def _state_words(choices: list[str]) -> list[str]:
    """Phases by name; `active` and `ended` are several."""
    return [phase for choice in choices for phase in STATE_GROUPS.get(choice.casefold(), (choice,))]


def _one_of(choice: str, kind: str) -> Callable[[Cell], bool]:
    if not choice:
        return lambda value: value is None or value == ""
    number = _number(choice, kind)
    words = choice.casefold()
    pattern = re.compile(translate(words)) if "*" in words else None

    def test(value: Cell) -> bool:
        if value is None:
            return False
        if isinstance(value, bool):
            return words == ("true" if value else "false")
        if isinstance(value, int | float):
            return number is not None and math.isclose(value, number, rel_tol=1e-9)
        folded = value.casefold()
        return bool(pattern.match(folded)) if pattern else folded == words

    return test


def _number(text: str, kind: str) -> float | None:
    """A number with an optional unit; of a time column an ISO date, in milliseconds."""
    if kind == TIME:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000
    match = _NUMBER.match(text)
    if match is None:
        return None
    unit = match[2] or ""
    scale = _SECONDS.get(unit) if kind == DURATION else _SUFFIXES.get(unit)
    if unit and scale is None:
        return None
    return float(match[1]) * (scale or 1.0)
