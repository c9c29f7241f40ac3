"""Runs that have not ended, and their newest started attempt: a projection of RUNS and ATTEMPTS. Pure."""

from __future__ import annotations

from runspine.domain.defaults import DEFAULT_POOL
from runspine.domain.run.evolve import ENDED, apply
from runspine.domain.run.rest import rests
from runspine.eventlog import Recorded
from runspine.eventlog.subjects import ATTEMPTS, RUNS, attempts_subject, run_subject
from runspine.services.launcher.core.placement import Placement
from runspine.wire.v1.run_pb2 import QUEUED, Quarantine, Run


class OpenRuns:
    """The launcher's projection of runs that have not ended."""

    name = "launcher"
    schema = 1
    streams: tuple[str, ...] = (RUNS, ATTEMPTS)

    def __init__(self) -> None:
        self.open: dict[str, Run] = {}
        # By run: the newest attempt that a worker has started.
        self.started: dict[str, int] = {}
        # By run: the newest attempt with an end, and placements whose end was recorded.
        self.exited: dict[str, int] = {}
        self.reported: dict[str, set[str]] = {}
        # Quarantined subjects: their runs are not started.
        self.quarantined: set[str] = set()

    def apply(self, recorded: Recorded) -> None:
        kind, _, run_id = recorded.subject.partition(".")
        if kind == "runs":
            self._apply_run(run_id, recorded)
        elif kind == "attempts":
            for fact in recorded.commit.facts:
                if fact.HasField("attempt_started"):
                    self.started[run_id] = max(self.started.get(run_id, 0), fact.attempt_started.attempt)
                if fact.HasField("attempt_exited"):
                    self.exited[run_id] = max(self.exited.get(run_id, 0), fact.attempt_exited.attempt)
        elif kind == "placements":
            for fact in recorded.commit.facts:
                self.reported.setdefault(run_id, set()).add(fact.placement_ended.worker_id)

    def apply_quarantine(self, quarantine: Quarantine) -> None:
        if quarantine.released:
            self.quarantined.discard(quarantine.subject)
        else:
            self.quarantined.add(quarantine.subject)

    def waiting(self, pool: str, now: int) -> list[Run]:
        """Runs of a pool without a started attempt, in the order in which they are served."""
        found = [
            run
            for run in self.open.values()
            if run.phase == QUEUED
            and (run.spec.pool or DEFAULT_POOL) == pool
            and not rests(run, now)
            and self.started.get(run.id, 0) < run.attempt
            and self.quarantined.isdisjoint((run_subject(run.id), attempts_subject(run.id)))
        ]
        return sorted(found, key=lambda run: (-run.priority, run.queued_at, run.id))

    def is_due(self, placement: Placement) -> bool:
        """Whether the end of this placement is to be recorded: on the log its attempt goes on."""
        run = self.open.get(placement.run_id)
        return (
            placement.stop is not None
            and run is not None
            and run.attempt == placement.attempt
            and self.exited.get(run.id, 0) < run.attempt
            and placement.worker_id not in self.reported.get(run.id, ())
        )

    def dump(self) -> bytes:
        """No snapshot: open runs are few, and the log is quick to read."""
        return b""

    def load(self, state: bytes) -> None:
        raise AssertionError("no snapshots are made of this")

    def _apply_run(self, run_id: str, recorded: Recorded) -> None:
        run = self.open.setdefault(run_id, Run(id=run_id))
        for fact in recorded.commit.facts:
            apply(run, fact)
        if run.phase in ENDED:
            del self.open[run_id]
            for known in (self.started, self.exited, self.reported):
                known.pop(run_id, None)
