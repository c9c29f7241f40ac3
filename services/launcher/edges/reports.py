"""Records why an engine ended a worker, for workers that could not record it themselves."""

from __future__ import annotations

import structlog

from runspine.clock import now_micros
from runspine.eventlog import ConflictError, CorruptError, EventLog, UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.subjects import placements_subject
from runspine.services.launcher.core.placement import Placement
from runspine.wire.v1.facts_pb2 import Fact, PlacementEnded

log = structlog.get_logger()


class PlacementReports:
    """Appends PlacementEnded. One that could not be appended is due again at the next look at the engine."""

    def __init__(self, event_log: EventLog | None) -> None:
        # None without a signing key: readers of a signed log would reject what this process writes.
        self._log = event_log
        self._warned = False

    async def record(self, placement: Placement) -> None:
        stop = placement.stop
        if stop is None:
            return
        if self._log is None:
            if not self._warned:
                log.warning("placement.not_recorded", remedy="set RUNSPINE_SIGNING_KEY of the launcher")
            self._warned = True
            return
        ended = PlacementEnded(attempt=placement.attempt, stop=stop, worker_id=placement.worker_id)
        subject = placements_subject(placement.run_id)
        try:
            history, version = await self._log.read(subject)
            known = (fact.placement_ended.worker_id for each in history for fact in each.commit.facts)
            if placement.worker_id in known:
                return
            await self._log.append(subject, [Fact(at=now_micros(), placement_ended=ended)], expected=version)
        except (
            ConflictError,
            CorruptError,
            UnknownOutcomeError,
            NatsUnreachableError,
            ServerRefusedError,
        ) as error:
            log.warning("placement.not_recorded", run_id=placement.run_id, error=str(error))
            return
        log.info("placement.ended", run_id=placement.run_id, attempt=placement.attempt, reason=stop.reason)
