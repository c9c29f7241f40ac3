"""Faults of a cluster, drawn from a seed: one at a time with peace around each, and overlapping. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Seconds that a fault lasts; what is not here is over when it is done.
LASTS = {
    "freeze": (2.0, 8.0),
    "cut off": (3.0, 8.0),
    "one way": (3.0, 8.0),
    "slow": (4.0, 8.0),
    "fill": (4.0, 8.0),
    "jump": (3.0, 8.0),
}
# Beyond a lease and beyond what a deposed leader needs to notice it.
BEYOND = (14.0, 18.0)
OFTEN_BEYOND = {"freeze": 0.2, "cut off": 0.25, "one way": 0.25}
JUMPS = (2.0, 40.0, 3600.0, 86400.0)
# How often each kind comes while faults overlap, relative to the others.
WEIGHTS = {
    "kill": 6.0,
    "freeze": 3.0,
    "cut off": 3.0,
    "one way": 3.0,
    "slow": 2.0,
    "jump": 2.0,
    "power": 1.0,
    "fill": 1.0,
    "wipe": 0.7,
    "rolling": 0.3,
    "flip": 0.7,
    "upgrade": 1.0,
}


@dataclass(frozen=True, slots=True)
class ClusterFault:
    """A kind and what it strikes; `seconds` is how long it lasts, `jump` by how much a clock jumps."""

    kind: str
    target: str
    seconds: float = 0.0
    jump: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.kind} {self.target}"


Targets = Mapping[str, Sequence[str]]


def one_by_one(seed: int, targets: Targets) -> list[ClusterFault]:
    """Every kind on every target once, in an order of the seed; kinds take turns."""
    chance = random.Random(seed)
    decks = {kind: chance.sample(list(some), len(some)) for kind, some in targets.items() if some}
    faults: list[ClusterFault] = []
    while decks:
        for kind in chance.sample(list(decks), len(decks)):
            faults.append(_fault(chance, kind, decks[kind].pop()))
            if not decks[kind]:
                del decks[kind]
    return faults


def overlapping(seed: int, targets: Targets, seconds: float, gap: float) -> list[tuple[float, ClusterFault]]:
    """Faults with the time since the one before, `gap` seconds in the mean."""
    chance = random.Random(f"{seed} overlapping")
    kinds = [kind for kind in WEIGHTS if targets.get(kind)]
    weights = [WEIGHTS[kind] for kind in kinds]
    faults: list[tuple[float, ClusterFault]] = []
    left = seconds
    while left > 0:
        after = chance.expovariate(1 / gap)
        kind = chance.choices(kinds, weights)[0]
        faults.append((after, _fault(chance, kind, chance.choice(list(targets[kind])))))
        left -= after
    return faults


def _fault(chance: random.Random, kind: str, target: str) -> ClusterFault:
    beyond = chance.random() < OFTEN_BEYOND.get(kind, 0.0)
    seconds = chance.uniform(*(BEYOND if beyond else LASTS[kind])) if kind in LASTS else 0.0
    jump = chance.choice(JUMPS) * chance.choice((1, -1)) if kind == "jump" else 0.0
    return ClusterFault(kind, target, seconds, jump)
