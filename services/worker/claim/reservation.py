"""Reservations of capacity for runs that have waited long, so that small runs do not starve them. Pure.

Until then small runs backfill the free capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

from runspine.wire.v1.spec_pb2 import RunSpec

# An offer is delivered every second while a slot is free: an absent one is cancelled or claimed elsewhere.
RECENT_SECONDS = 10.0
# A run is remembered beyond that, because no offers are pulled while all slots are taken.
MEMORY_SECONDS = 24 * 3600.0


@dataclass(slots=True)
class _Waiting:
    spec: RunSpec
    priority: int
    since: float
    seen: float


class Reservations:
    """Runs that wait for capacity, and which others they keep out."""

    def __init__(self, after: float) -> None:
        self._after = after
        self._waiting: dict[str, _Waiting] = {}

    def note(self, run_id: str, spec: RunSpec, priority: int, now: float) -> None:
        """Record that a run would fit here, but not now."""
        waiting = self._waiting.get(run_id)
        if waiting is None or now - waiting.seen > MEMORY_SECONDS:
            waiting = self._waiting[run_id] = _Waiting(spec, priority, now, now)
        waiting.spec, waiting.priority, waiting.seen = spec, priority, now

    def forget(self, run_id: str) -> None:
        """Remove a run that was claimed."""
        self._waiting.pop(run_id, None)

    def keeps_out(self, run_id: str, spec: RunSpec, priority: int, now: float) -> str:
        """Why a run must wait although it fits; empty when it need not."""
        self._waiting = {k: w for k, w in self._waiting.items() if now - w.seen <= MEMORY_SECONDS}
        rivals = [
            (other, waiting)
            for other, waiting in self._waiting.items()
            if now - waiting.since >= self._after
            and now - waiting.seen <= RECENT_SECONDS
            and priority <= waiting.priority
            and competes(spec, waiting.spec)
        ]
        if not rivals:
            return ""
        first, waiting = min(rivals, key=lambda rival: (-rival[1].priority, rival[1].since))
        if first == run_id or any(other == run_id for other, _ in rivals):
            return ""  # neither the longest wait is extended, nor do two runs wait for each other
        return f"room is kept for run {first}, which has waited {now - waiting.since:.0f} s for it"


def competes(one: RunSpec, other: RunSpec) -> bool:
    """Whether both request the same kind of capacity."""
    return bool(
        (one.gpus and other.gpus)
        or (one.limits.memory_mib and other.limits.memory_mib)
        or (one.limits.cpus and other.limits.cpus)
    )
