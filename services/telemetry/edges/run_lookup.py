"""Runs on the log: whether one exists, whether it has ended, and its cutoffs."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import aclosing

from runspine.domain.run import ENDED, fold
from runspine.domain.run.attempts import apply_attempt
from runspine.eventlog import CorruptError, EventLog, Recorded
from runspine.eventlog.admission import follow_accepted
from runspine.eventlog.subjects import RUNS, attempts_subject, run_subject
from runspine.rpc.errors import NotFoundError
from runspine.services.telemetry.core.visibility import Cutoffs, cutoffs
from runspine.wire.v1.run_pb2 import AttemptHistory, Run

CACHE_SECONDS = 1.0
MAX_CACHED = 1024


class RunLookup:
    """Looks runs and their attempts up on the log, with a cache."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._cutoffs: OrderedDict[str, tuple[float, Cutoffs]] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()

    async def ensure(self, run_id: str) -> None:
        """Raises NotFoundError. Runs are never removed, so a known run is not read again."""
        if run_id not in self._known:
            await self.get(run_id)
            self._known[run_id] = None
            while len(self._known) > MAX_CACHED:
                self._known.popitem(last=False)

    async def get(self, run_id: str) -> tuple[Run, int]:
        """The run, and its position on RUNS. Raises NotFoundError."""
        history = await self._accepted(run_subject(run_id))
        if not history:
            raise NotFoundError(f"there is no run {run_id}")
        return fold(fact for recorded in history for fact in recorded.commit.facts), history[-1].sequence

    async def wait_for_end(self, run: Run, position: int) -> None:
        """Wait until the run has ended."""
        if run.phase in ENDED:
            return
        following = follow_accepted(self._log, RUNS, run_subject(run.id))
        async with aclosing(following):
            async for recorded in following:
                if recorded.sequence > position:
                    run = fold(recorded.commit.facts, run)
                if run.phase in ENDED:
                    return

    async def cutoffs(self, run_id: str) -> Cutoffs:
        """Cutoffs of the attempts, read from the log at most once per CACHE_SECONDS."""
        held = self._cutoffs.get(run_id)
        if held and time.monotonic() - held[0] < CACHE_SECONDS:
            return held[1]
        found = cutoffs(run_id, await self.attempts(run_id))
        self._cutoffs[run_id] = (time.monotonic(), found)
        self._cutoffs.move_to_end(run_id)
        while len(self._cutoffs) > MAX_CACHED:
            self._cutoffs.popitem(last=False)
        return found

    async def attempts(self, run_id: str) -> AttemptHistory:
        """The attempts of a run, read from the log."""
        history = AttemptHistory()
        for recorded in await self._accepted(attempts_subject(run_id)):
            for fact in recorded.commit.facts:
                apply_attempt(history, fact)
        return history

    async def _accepted(self, subject: str) -> list[Recorded]:
        """A history; of a quarantined subject the part before its first problem."""
        try:
            return (await self._log.read(subject))[0]
        except CorruptError as error:
            return error.accepted
