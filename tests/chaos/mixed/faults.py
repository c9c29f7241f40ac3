"""Which fault strikes when: drawn from a seed, so that a schedule can be played again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from runspine.embedded.stack import Stack

# How long a process is frozen: some within its lease, some beyond it.
FREEZE = (0.5, 6.0)
# Two processes at once are what a machine that swaps or a rack that flickers does.
KINDS = {"kill": 6, "freeze": 3, "kill both": 1}


@dataclass(frozen=True, slots=True)
class Fault:
    """`after` seconds of peace since the one before."""

    after: float
    kind: str
    parts: tuple[str, ...]
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.kind} {' and '.join(self.parts)}"


def schedule(seed: int, parts: Sequence[str], seconds: float, gap: float) -> list[Fault]:
    """Faults for about so long, `gap` seconds apart in the mean."""
    chance = random.Random(seed)
    faults: list[Fault] = []
    left = seconds
    while left > 0:
        after = chance.expovariate(1 / gap)
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        struck = chance.sample(list(parts), 2 if kind == "kill both" else 1)
        frozen = chance.uniform(*FREEZE) if kind == "freeze" else 0.0
        faults.append(Fault(after, kind, tuple(sorted(struck)), frozen))
        left -= after + frozen
    return faults


async def strike(stack: Stack, fault: Fault) -> bool:
    """Do it; whether it struck at all: a process may be down from the fault before."""
    await asyncio.sleep(fault.after)
    pids = {part: pid for part in fault.parts if (pid := stack.pid(part))}
    if fault.kind != "freeze":
        for part in pids:
            stack.kill(part)
        return bool(pids)
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(fault.seconds)
    for part, pid in pids.items():
        # The supervisor may have replaced it meanwhile.
        if stack.pid(part) == pid:
            os.kill(pid, signal.SIGCONT)
    return bool(pids)
