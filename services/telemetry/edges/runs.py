"""What the log says of a run: whether it is there, whether it has ended, what was superseded."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import aclosing

from runspine.grpc_errors import NotFound
from runspine.log import EventLog
from runspine.log.subjects import RUNS, attempts_subject, run_subject
from runspine.run import ENDED, fold
from runspine.run.attempts import apply_attempt
from runspine.wire.v1.run_pb2 import AttemptHistory, Run
from services.telemetry.core.visibility import Cutoffs, cutoffs

FRESH_SECONDS = 1.0
REMEMBERED = 1024


class Runs:
    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._cutoffs: OrderedDict[str, tuple[float, Cutoffs]] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()

    async def ensure(self, run_id: str) -> None:
        """Raises NotFound. A run that was there once always is."""
        if run_id not in self._known:
            await self.get(run_id)
            self._known[run_id] = None
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    async def get(self, run_id: str) -> tuple[Run, int]:
        """The run, and the position on RUNS it stands at. Raises NotFound."""
        history, version = await self._log.read(run_subject(run_id))
        if not history:
            raise NotFound(f"there is no run {run_id}")
        return fold(fact for recorded in history for fact in recorded.commit.facts), version.sequence

    async def ended(self, run: Run, decided: int) -> None:
        """Wait until the run has ended."""
        if run.phase in ENDED:
            return
        following = self._log.follow(RUNS, after=decided, subject=run_subject(run.id))
        async with aclosing(following):
            async for recorded in following:
                run = fold(recorded.commit.facts, run)
                if run.phase in ENDED:
                    return

    async def cutoffs(self, run_id: str) -> Cutoffs:
        """Up to which step each attempt is shown; asked of the log at most once a second."""
        held = self._cutoffs.get(run_id)
        if held and time.monotonic() - held[0] < FRESH_SECONDS:
            return held[1]
        recorded, _ = await self._log.read(attempts_subject(run_id))
        history = AttemptHistory()
        for commit in recorded:
            for fact in commit.commit.facts:
                apply_attempt(history, fact)
        found = cutoffs(run_id, history)
        self._cutoffs[run_id] = (time.monotonic(), found)
        self._cutoffs.move_to_end(run_id)
        while len(self._cutoffs) > REMEMBERED:
            self._cutoffs.popitem(last=False)
        return found
