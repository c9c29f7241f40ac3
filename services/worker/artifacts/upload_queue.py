"""The order of uploads: checkpoints first, then by age; what S3 did not accept comes last for a while."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter

from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.services.worker.artifacts.intents import Intent


class UploadQueue:
    """Uploads that are due, until they are recorded; those that are not sent yet are queued."""

    def __init__(self) -> None:
        self.due: dict[str, Intent] = {}
        # By arrival: ids of the same millisecond have no order, and the newest of several files is the last.
        self._numbers = itertools.count()
        self._queued: list[tuple[bool, int, str]] = []
        self._postponed: list[tuple[float, str]] = []
        self._of_run: Counter[str] = Counter()
        self._checkpoints_of_run: Counter[str] = Counter()

    @property
    def unsent(self) -> bool:
        """Whether anything is left to send."""
        return bool(self._queued or self._postponed)

    def add(self, intent: Intent) -> None:
        if intent.id in self.due:
            return
        self.due[intent.id] = intent
        self._count(intent, 1)
        self._enqueue(intent)

    def take(self, now: float) -> Intent:
        """Remove the next upload to send from the queue; it stays due."""
        while self._postponed and self._postponed[0][0] <= now:
            self._enqueue(self.due[heapq.heappop(self._postponed)[1]])
        if self._queued:
            return self.due[heapq.heappop(self._queued)[2]]
        return self.due[heapq.heappop(self._postponed)[1]]

    def postpone(self, intent: Intent, until: float) -> None:
        """Send an upload that was taken after the others, until this time."""
        heapq.heappush(self._postponed, (until, intent.id))

    def remove(self, intent: Intent) -> None:
        """An upload that was taken is no longer due."""
        if self.due.pop(intent.id, None) is not None:
            self._count(intent, -1)

    def count(self, run_id: str) -> int:
        """How many files of a run are due."""
        return self._of_run[run_id]

    def count_checkpoints(self, run_id: str) -> int:
        """How many checkpoints of a run are due."""
        return self._checkpoints_of_run[run_id]

    def _enqueue(self, intent: Intent) -> None:
        heapq.heappush(self._queued, (intent.kind != CHECKPOINT, next(self._numbers), intent.id))

    def _count(self, intent: Intent, change: int) -> None:
        counters = [self._of_run]
        if intent.kind == CHECKPOINT:
            counters.append(self._checkpoints_of_run)
        for counter in counters:
            counter[intent.run_id] += change
            if not counter[intent.run_id]:
                del counter[intent.run_id]
