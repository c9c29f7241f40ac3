"""Runs that have ended, and the position of their last batch on the TELEMETRY stream."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing

from runspine.domain.run import ENDED, fold
from runspine.eventlog import CorruptError, EventLog, Recorded
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.reads import SubjectReader
from runspine.eventlog.subjects import RUNS, TELEMETRY, run_subject

ENDING_FACTS = {"run_completed", "run_failed", "run_cancelled"}


class EndedRuns:
    """Follows RUNS and notes the last batch of each run that ends."""

    def __init__(self, link: NatsConnection, event_log: EventLog) -> None:
        self._link = link
        self._log = event_log
        self._last: dict[str, int] = {}
        self._after: int | None = None

    async def start(self) -> None:
        """Note every run that ends from now on; for runs that ended before, see `has_ended`."""
        if self._after is None:
            self._after = (await self._log.extent(RUNS)).last

    async def follow(self) -> None:
        async with aclosing(self._log.follow(RUNS, after=self._after or 0)) as records:
            async for recorded in records:
                run_id = recorded.subject.partition(".")[2]
                if _holds_ending(recorded) and await has_ended(self._log, run_id):
                    self._last[run_id] = await last_position(self._link, f"telemetry.{run_id}.>")
                self._after = recorded.sequence

    def any_reached(self, run_ids: Iterable[str], cursor: int) -> bool:
        """Whether one of these runs has ended with its last batch at or before the cursor."""
        return any(self._last.get(run_id, cursor + 1) <= cursor for run_id in run_ids)

    def pop_reached(self, cursor: int) -> list[str]:
        """Runs that have ended with their last batch at or before the cursor; each is returned once."""
        done = [run_id for run_id, last in self._last.items() if last <= cursor]
        for run_id in done:
            del self._last[run_id]
        return done


def _holds_ending(recorded: Recorded) -> bool:
    """Whether an ending is in it, which need not be true: its subject shows whether it is accepted."""
    try:
        facts = recorded.commit.facts
    except CorruptError:
        return False
    return any(fact.WhichOneof("kind") in ENDING_FACTS for fact in facts)


async def has_ended(event_log: EventLog, run_id: str) -> bool:
    """Whether the run has ended, by the accepted part of its history."""
    try:
        history, _ = await event_log.read(run_subject(run_id))
    except CorruptError as error:
        history = error.accepted
    return fold(fact for recorded in history for fact in recorded.commit.facts).phase in ENDED


async def last_position(link: NatsConnection, subject: str) -> int:
    """Sequence of the newest message on these subjects by the leader's word; 0 when there is none."""
    newest = await SubjectReader(link).last(TELEMETRY, subject)
    return newest.sequence if newest else 0
