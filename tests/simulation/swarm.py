"""What a schedule is a mix of: each draws which kinds of faults are on, how often, and what its clients call.

A search in which every schedule has a little of everything hardly ever meets what needs much of one thing and
nothing of another (swarm testing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tests.simulation.plan import Plan

Kind = TypeVar("Kind")
# How many of the kinds of faults are on, and how much more one kind of call is made than usual.
ON_SHARES = (0.15, 0.4, 0.7, 1.0)
CALL_FACTORS = (0.2, 1.0, 1.0, 4.0)
# How often a message is slow, or a replica stalls, for no reason.
SLOW_SHARES = (0.0, 0.01, 0.01, 0.06)
STALL_SHARES = (0.0, 0.03, 0.03, 0.2)
# How often only one of two processes that can take each other's place runs.
ALONE_SHARE = 0.3


class Mix:
    """The draws of one schedule; they do not depend on its timing."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        chance = plan.random("network")
        self.slow_share = chance.choice(SLOW_SHARES)
        self.stall_share = chance.choice(STALL_SHARES)

    def faults(self, kinds: Sequence[Kind]) -> list[Kind]:
        """The kinds that are on; one that is given twice is twice as frequent."""
        chance = self._plan.random("kinds")
        share = chance.choice(ON_SHARES)
        on = [kind for kind in dict.fromkeys(kinds) if chance.random() < share]
        return [kind for kind in kinds if kind in on] or [chance.choice(kinds)]

    def calls(self, usual: Mapping[str, float]) -> dict[str, float]:
        """How often each call is made, relative to the others."""
        chance = self._plan.random("calls")
        return {name: weight * chance.choice(CALL_FACTORS) for name, weight in usual.items()}

    def processes(self, names: Sequence[str]) -> tuple[str, ...]:
        """All of these, or only the first."""
        alone = self._plan.random(f"alone {names[0]}").random() < ALONE_SHARE
        return tuple(names[:1] if alone else names)

    def often(self, what: str, share: float) -> bool:
        """Whether this schedule has something, which so many have."""
        return self._plan.random(what).random() < share
