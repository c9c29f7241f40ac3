"""Batches gathered for the next commit. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from runspine.services.telemetry.core.batch_numbers import SeenBatches
from runspine.services.telemetry.core.rows import Arrival, batch_kind
from runspine.wire.v1.manifest_pb2 import Covered


@dataclass(slots=True)
class PendingCommit:
    """The batches of one commit: everything after the previous cursor, up to this one."""

    cursor: int
    batches: dict[tuple[str, str], list[Arrival]] = field(default_factory=lambda: defaultdict(list))
    attempts: set[tuple[str, int]] = field(default_factory=set)
    bytes: int = 0
    messages: int = 0
    # When the first and the last batch were stored on the stream, in microseconds; 0 before any.
    oldest: int = 0
    newest: int = 0

    def covered(self, seen: SeenBatches) -> list[Covered]:
        """The batch numbers seen of the attempts in this commit."""
        runs = {run_id for run_id, _ in self.attempts}
        return [
            each
            for run_id in sorted(runs)
            for each in seen.covered(run_id)
            if (run_id, each.attempt) in self.attempts
        ]


class CommitGatherer:
    """Gathers batches for commits, each batch once."""

    def __init__(self, cursor: int, seen: SeenBatches) -> None:
        self.seen = seen
        self.now = PendingCommit(cursor)

    def skip(self, position: int) -> None:
        """Advance the cursor past a message of another partition or one that is no batch."""
        self.now.cursor = position
        self.now.messages += 1

    def add(self, arrival: Arrival, size: int, stored_at: int) -> bool:
        """Add a batch; True if it is new."""
        self.skip(arrival.position)
        batch, kind, now = arrival.batch, batch_kind(arrival.batch), self.now
        if not self.seen.add(batch.run_id, batch.attempt, batch.number):
            return False
        now.batches[batch.run_id, kind].append(arrival)
        now.attempts.add((batch.run_id, batch.attempt))
        now.bytes += size
        now.oldest = now.oldest or stored_at
        now.newest = stored_at
        return True

    def cut(self) -> tuple[PendingCommit, list[Covered]]:
        """Return what was gathered, with its batch numbers, and start with nothing again."""
        taken, self.now = self.now, PendingCommit(self.now.cursor)
        return taken, taken.covered(self.seen)
