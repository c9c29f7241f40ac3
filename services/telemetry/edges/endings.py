"""Runs that have ended, and where on the TELEMETRY stream their last batch is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import aclosing

from runspine.log import EventLog
from runspine.log.link import Link
from runspine.log.subjects import RUNS, TELEMETRY, run_subject
from runspine.run import ENDED, fold

ENDING_FACTS = {"run_completed", "run_failed", "run_cancelled"}


class Endings:
    def __init__(self, link: Link, event_log: EventLog) -> None:
        self._link = link
        self._log = event_log
        self._last: dict[str, int] = {}
        self._after: int | None = None

    async def begin(self) -> None:
        """From here on every run that ends is noted; those that ended before are to be asked for."""
        if self._after is None:
            self._after = (await self._log.extent(RUNS)).last

    async def follow(self) -> None:
        async with aclosing(self._log.follow(RUNS, after=self._after or 0)) as records:
            async for recorded in records:
                if any(fact.WhichOneof("kind") in ENDING_FACTS for fact in recorded.commit.facts):
                    run_id = recorded.subject.partition(".")[2]
                    self._last[run_id] = await last_position(self._link, f"telemetry.{run_id}.>")
                self._after = recorded.sequence

    def waits_for(self, run_ids: Iterable[str], cursor: int) -> bool:
        """Whether one of these runs has ended and all of it has been read."""
        return any(self._last.get(run_id, cursor + 1) <= cursor for run_id in run_ids)

    def reached(self, cursor: int) -> list[str]:
        """Runs that have ended and were read to their end; each is named once."""
        done = [run_id for run_id, last in self._last.items() if last <= cursor]
        for run_id in done:
            del self._last[run_id]
        return done


async def has_ended(event_log: EventLog, run_id: str) -> bool:
    history, _ = await event_log.read(run_subject(run_id))
    return fold(fact for recorded in history for fact in recorded.commit.facts).phase in ENDED


async def last_position(link: Link, subject: str) -> int:
    """Of the newest message on these subjects; 0 when there is none."""
    body = json.dumps({"last_by_subj": subject}).encode()
    answer = await link.request(f"$JS.API.DIRECT.GET.{TELEMETRY}", body)
    return int((answer.headers or {}).get("Nats-Sequence", "0"))
