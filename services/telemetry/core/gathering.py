"""Batches on their way into the next commit. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from runspine.wire.v1.manifest_pb2 import Covered
from services.telemetry.core.rows import Arrival, kind_of
from services.telemetry.core.seen import Seen


@dataclass(slots=True)
class Gathered:
    """What one commit will hold: everything after the last cursor, up to this one."""

    cursor: int
    batches: dict[tuple[str, str], list[Arrival]] = field(default_factory=lambda: defaultdict(list))
    attempts: set[tuple[str, int]] = field(default_factory=set)
    bytes: int = 0
    messages: int = 0
    # When the first and the last message came onto the stream, in microseconds; 0 before any.
    oldest: int = 0
    newest: int = 0

    def covered(self, seen: Seen) -> list[Covered]:
        """What is seen of the attempts in it."""
        runs = {run_id for run_id, _ in self.attempts}
        return [
            told
            for run_id in sorted(runs)
            for told in seen.covered(run_id)
            if (run_id, told.attempt) in self.attempts
        ]


class Gatherer:
    """Takes each batch once."""

    def __init__(self, cursor: int, seen: Seen) -> None:
        self.seen = seen
        self.now = Gathered(cursor)

    def pass_over(self, position: int) -> None:
        """Not ours, or nothing."""
        self.now.cursor = position
        self.now.messages += 1

    def take(self, arrival: Arrival, size: int, stored_at: int) -> bool:
        """Whether it is new."""
        self.pass_over(arrival.position)
        batch, kind, now = arrival.batch, kind_of(arrival.batch), self.now
        if not self.seen.add(batch.run_id, batch.attempt, batch.number):
            return False
        now.batches[batch.run_id, kind].append(arrival)
        now.attempts.add((batch.run_id, batch.attempt))
        now.bytes += size
        now.oldest = now.oldest or stored_at
        now.newest = stored_at
        return True

    def cut(self) -> tuple[Gathered, list[Covered]]:
        """What was gathered, for a commit; gathering goes on with nothing."""
        taken, self.now = self.now, Gathered(self.now.cursor)
        return taken, taken.covered(self.seen)
