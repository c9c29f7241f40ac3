"""Which fault strikes when: drawn from a seed, so that a schedule can be played again. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# How often each kind comes, relative to the others. Two processes at once stand for a failing rack.
KINDS = {
    "kill": 6.0,
    "kill both": 1.0,
    "freeze": 3.0,
    "cut": 3.0,
    "silence": 2.0,
    "slow": 2.0,
    "errors": 2.0,
    "fill": 1.0,
    "jump": 2.0,
    "flip": 1.0,
    "power": 0.6,
}
# Seconds that a fault lasts; what is not here is over at once.
LASTS = {
    "freeze": (0.5, 6.0),
    "cut": (0.5, 6.0),
    "silence": (0.5, 6.0),
    "slow": (3.0, 10.0),
    "errors": (3.0, 10.0),
    "fill": (2.0, 8.0),
    "jump": (2.0, 15.0),
}
# Some last longer than a lease: then the run is given to another worker meanwhile.
BEYOND = (10.0, 14.0)
OFTEN_BEYOND = {"freeze": 0.15, "cut": 0.2, "silence": 0.2}
# Seconds a clock jumps by, either way: a bad NTP server, a time zone, a machine that slept.
JUMPS = (2.0, 40.0, 3600.0, 86400.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """`after` seconds since the one before began; it lasts `seconds`."""

    after: float
    kind: str
    targets: tuple[str, ...]
    seconds: float = 0.0
    jump: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.kind} {' and '.join(self.targets)}"


def schedule(seed: int, targets: Mapping[str, Sequence[str]], seconds: float, gap: float) -> list[Fault]:
    """Faults for so long, `gap` seconds apart in the mean, of the kinds that have a target here."""
    chance = random.Random(seed)
    kinds = [kind for kind in KINDS if targets.get(kind)]
    weights = [KINDS[kind] for kind in kinds]
    faults: list[Fault] = []
    left = seconds
    while left > 0:
        after = chance.expovariate(1 / gap)
        kind = chance.choices(kinds, weights)[0]
        struck = chance.sample(list(targets[kind]), 2 if kind == "kill both" else 1)
        faults.append(Fault(after, kind, tuple(sorted(struck)), _length(chance, kind), _jump(chance, kind)))
        left -= after
    return faults


def _length(chance: random.Random, kind: str) -> float:
    if kind not in LASTS:
        return 0.0
    return chance.uniform(*(BEYOND if chance.random() < OFTEN_BEYOND.get(kind, 0.0) else LASTS[kind]))


def _jump(chance: random.Random, kind: str) -> float:
    return chance.choice(JUMPS) * chance.choice((1, -1)) if kind == "jump" else 0.0
