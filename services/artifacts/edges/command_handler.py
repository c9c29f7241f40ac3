"""Carries commands out: reads the run's history, decides, appends, and waits until the catalog has the
facts."""

from __future__ import annotations

from runspine.clock import now_micros
from runspine.domain.artifact import decide, fold
from runspine.domain.artifact.commands import Command
from runspine.domain.retention import RETENTION, decide_rules, fold_rules
from runspine.eventlog import EventLog, UnknownOutcomeError
from runspine.eventlog.decider import Handled, handle
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS, artifacts_subject
from runspine.services.artifacts.edges import metrics
from runspine.wire.v1.artifacts_pb2 import RetentionRules, RunArtifacts
from runspine.wire.v1.facts_pb2 import RetentionProfile

# A batch over many runs may conflict with another writer on some of them.
MAX_TRIES = 8


class CommandHandler:
    """Appends the facts of commands on artifacts and retention rules."""

    def __init__(self, event_log: EventLog, projector: Projector) -> None:
        self._log = event_log
        self._projector = projector

    async def command(self, run_id: str, command: Command) -> Handled[RunArtifacts]:
        """Decide and append. Raises RunRefusedError, ConflictError, UnknownOutcomeError,
        NatsUnreachableError."""
        handled = await handle(
            self._log, artifacts_subject(run_id), lambda entry: decide(entry, command), fold, tries=MAX_TRIES
        )
        await self._done(handled)
        return handled

    async def set_rules(self, scope: str, profile: RetentionProfile, by: str) -> None:
        at = now_micros()
        handled = await handle(
            self._log,
            artifacts_subject(RETENTION),
            lambda rules: decide_rules(rules, scope, profile, at, by),
            fold_rules,
            tries=MAX_TRIES,
        )
        await self._done(handled)

    async def catch_up(self) -> None:
        """Wait until the catalog has everything that is on the log now.

        Raises UnknownOutcomeError when it does not.
        """
        for stream in (RUNS, ATTEMPTS, ARTIFACTS):
            end = (await self._log.extent(stream)).last
            if not await self._projector.reached(stream, end, timeout=10.0):
                raise UnknownOutcomeError(f"the catalog has not read {stream} to its end yet")

    async def _done(self, handled: Handled[RunArtifacts] | Handled[RetentionRules]) -> None:
        for fact in handled.facts:
            metrics.FACTS.labels(fact.WhichOneof("kind")).inc()
        if handled.facts and not await self._projector.reached(ARTIFACTS, handled.position):
            raise UnknownOutcomeError("stored, but the catalog has not read it yet: repeat the call")
