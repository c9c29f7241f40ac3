"""What a schedule is made of: its seed, and for one that was shrunk, the faults and calls that are left.

A seed decides every fault and call, each from random numbers of its own, so that one can be left out and the
others stay as they are. When everything happens follows from a salt: a shrunk schedule may need another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random

# Timings that are tried before a fault or a call counts as needed.
SALTS = 4
# Short schedules find most faults, several in the time of one long one; some faults need the long ones.
SHORT_SHARE = 0.85


@dataclass(frozen=True)
class Plan:
    """A schedule, as it is written into `kept_seeds.txt`: `log 89 salt=2 only=f0,p1.key.2,p3.key.2`."""

    kind: str
    seed: int
    salt: int = 0
    # The faults and calls that are left; None for all of them.
    only: frozenset[str] | None = None

    def random(self, purpose: str) -> Random:
        """Random numbers for one purpose; those of faults and calls do not depend on the salt."""
        return Random(f"{purpose} {self.seed}")

    @property
    def short(self) -> bool:
        """Whether it has few calls and runs, and faults for a short time."""
        return self.random("size").random() < SHORT_SHARE

    def timing(self) -> Random:
        return Random(f"schedule {self.seed} {self.salt}")

    def has(self, name: str) -> bool:
        return self.only is None or name in self.only

    def __str__(self) -> str:
        salt = f" salt={self.salt}" if self.salt else ""
        only = f" only={','.join(sorted(self.only))}" if self.only is not None else ""
        return f"{self.kind} {self.seed}{salt}{only}"


def parse_plan(text: str) -> Plan:
    """The plan that `str` wrote."""
    kind, seed, *words = text.split()
    given = dict(word.split("=", 1) for word in words)
    only = frozenset(filter(None, given["only"].split(","))) if "only" in given else None
    return Plan(kind, int(seed), int(given.get("salt", 0)), only)


Fails = Callable[[Plan], bool]


def shrink(plan: Plan, parts: Iterable[str], fails: Fails, tries: int) -> Plan:
    """The smallest schedule found that still fails: large parts are left out first, then single ones."""
    budget = iter(range(tries))
    left = [part for part in parts if plan.has(part)]
    size = max(1, len(left) // 2)
    while left:
        before = len(left)
        for chunk in [left[start : start + size] for start in range(0, before, size)]:
            smaller = [part for part in left if part not in chunk]
            found = _failing(replace(plan, only=frozenset(smaller)), fails, budget)
            if found is not None:
                plan, left = found, smaller
        if (size == 1 and len(left) == before) or next(budget, None) is None:
            break
        size = max(1, min(size // 2 if len(left) == before else size, len(left)))
    return plan


def _failing(plan: Plan, fails: Fails, budget: Iterator[int]) -> Plan | None:
    """The plan with the first timing by which it fails."""
    for salt in (plan.salt, *range(1, SALTS)):
        if next(budget, None) is None:
            return None
        candidate = replace(plan, salt=salt)
        if fails(candidate):
            return candidate
    return None
