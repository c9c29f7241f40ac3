"""Carries commands out: read the run's history, decide, append; then wait until the catalog shows it."""

from __future__ import annotations

import time

from runspine.artifact import decide, fold
from runspine.artifact.commands import Command
from runspine.decider import Handled, handle
from runspine.log import EventLog, Unknown
from runspine.log.subjects import ARTIFACTS, ATTEMPTS, RUNS, artifacts_subject
from runspine.projection import Projector
from runspine.retention import RETENTION, decide_rules, fold_rules
from runspine.wire.v1.artifacts_pb2 import RetentionRules, RunArtifacts
from runspine.wire.v1.facts_pb2 import RetentionProfile
from services.artifacts.edges import metrics

# A batch of many runs may meet another writer on some of them.
TRIES = 8


def wall_clock() -> int:
    return time.time_ns() // 1000


class Clerk:
    def __init__(self, event_log: EventLog, projector: Projector) -> None:
        self._log = event_log
        self._projector = projector

    async def command(self, run_id: str, command: Command) -> Handled[RunArtifacts]:
        """Raises Refused, Conflict, Unknown, Unreachable."""
        handled = await handle(
            self._log, artifacts_subject(run_id), lambda shelf: decide(shelf, command), fold, tries=TRIES
        )
        await self._done(handled)
        return handled

    async def set_rules(self, scope: str, profile: RetentionProfile, by: str) -> None:
        at = wall_clock()
        handled = await handle(
            self._log,
            artifacts_subject(RETENTION),
            lambda rules: decide_rules(rules, scope, profile, at, by),
            fold_rules,
            tries=TRIES,
        )
        await self._done(handled)

    async def caught_up(self) -> None:
        """Return when the catalog shows all that is on the log now. Raises Unknown when it does not."""
        for stream in (RUNS, ATTEMPTS, ARTIFACTS):
            end = (await self._log.extent(stream)).last
            if not await self._projector.reached(stream, end, timeout=10.0):
                raise Unknown(f"the catalog has not read {stream} to its end yet")

    async def _done(self, handled: Handled[RunArtifacts] | Handled[RetentionRules]) -> None:
        for fact in handled.facts:
            metrics.FACTS.labels(fact.WhichOneof("kind")).inc()
        if handled.facts:
            await self._projector.reached(ARTIFACTS, handled.position)
