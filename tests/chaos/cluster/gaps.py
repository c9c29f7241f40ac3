"""For how long no write was acknowledged, fault by fault. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

# Promises for one fault at a time. nats-servers elect a new leader 4 to 9 s after the old one last answered;
# there is no setting for that.
ELECTION_SECONDS = 10.0
KILLED_ORCHESTRATOR_SECONDS = 2.0
ANY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: its name, when it began, when everything had recovered."""

    name: str
    began: float
    recovered: float
    # Whether nats-servers elected a leader meanwhile.
    elected: bool = False


def gap_of(strike: Strike, acknowledged: Sequence[float]) -> float:
    """The longest time between two acknowledged writes that overlaps the fault."""
    longest = 0.0
    for earlier, later in pairwise(acknowledged):
        if later >= strike.began and earlier <= strike.recovered:
            longest = max(longest, later - earlier)
    if acknowledged and acknowledged[-1] < strike.recovered:
        longest = max(longest, strike.recovered - acknowledged[-1])
    return longest


def limit_of(strike: Strike) -> float:
    if strike.elected:
        return ELECTION_SECONDS
    if strike.name.startswith("kill orchestrator"):
        return KILLED_ORCHESTRATOR_SECONDS
    return ANY_SECONDS


@dataclass(frozen=True, slots=True)
class GapRow:
    """Strikes of one kind on one sort of process."""

    name: str
    count: int
    median: float
    longest: float


def rows(gaps: Iterable[tuple[Strike, float]]) -> list[GapRow]:
    """By kind and sort of target, longest first."""
    found: dict[str, list[float]] = {}
    for strike, gap in gaps:
        found.setdefault(_sort_of(strike), []).append(gap)
    made = [GapRow(name, len(some), median(some), max(some)) for name, some in found.items()]
    return sorted(made, key=lambda row: -row.longest)


def _sort_of(strike: Strike) -> str:
    """Without numbers of processes: `kill worker-3` counts as `kill worker`."""
    words = "".join(letter for letter in strike.name if not letter.isdigit()).replace("-", " ").split()
    return " ".join(words) + (" (a leader was elected)" if strike.elected else "")


def table(found: Iterable[Mapping[str, object]]) -> str:
    """In Markdown, for docs/faults.md."""
    lines = ["| fault, alone | times | writes out, median | longest |", "|---|---|---|---|"]
    lines += [
        f"| {row['name']} | {row['count']} | {row['median']:.1f} s | {row['longest']:.1f} s |"
        for row in found
    ]
    return "\n".join(lines)
