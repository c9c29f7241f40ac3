"""The status of a running stack, from its record and the health of each part."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from runspine.embedded.part import get_health
from runspine.embedded.processes import is_alive
from runspine.embedded.record import PartRecord, StackRecord


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part, as `runspine status` shows it."""

    name: str
    state: str
    pid: int
    uptime: float
    restarts: int
    address: str
    health: str
    # Whether the stack is healthy only with it.
    awaited: bool = True

    @property
    def healthy(self) -> bool:
        return self.health == "ok"


def inspect(record: StackRecord) -> list[PartStatus]:
    """The status of every part, queried in parallel."""
    with ThreadPoolExecutor(max_workers=max(1, len(record.parts))) as pool:
        return list(pool.map(lambda item: _status(*item), record.parts.items()))


def _status(name: str, part: PartRecord) -> PartStatus:
    alive = is_alive(part.pid, part.identity)
    trouble = part.trouble or (get_health(part.health) if alive else "its process is gone")
    return PartStatus(
        name=name,
        state=part.state if alive or part.state == "waiting" else "ended",
        pid=part.pid if alive else 0,
        uptime=time.time() - part.started_at if alive else 0.0,
        restarts=part.restarts,
        address=part.where,
        health=trouble or "ok",
        awaited=part.awaited,
    )
