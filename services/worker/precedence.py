"""A checkpoint is told after the steps that led to it: nobody goes on from a past that is not on record."""

from __future__ import annotations

from runspine.log.subjects import attempts_subject, run_subject
from runspine.run import fold
from runspine.run.attempts import find_attempt
from services.worker.recorder import Recorder
from services.worker.spools import Spools
from services.worker.verdict import attempts_of

LOOK_SECONDS = 1.0
# A spool that nobody ships for so long could not be shipped.
ABANDONED_SECONDS = 600.0


class Precedence:
    def __init__(self, spools: Spools, recorder: Recorder, worker_id: str) -> None:
        self._spools = spools
        self._recorder = recorder
        self._worker_id = worker_id

    async def reached(self, run_id: str, attempt: int, number: int) -> bool:
        """Until the stream has the attempt's batches up to this number; False when it never will."""
        name = f"{run_id}.{attempt}"
        idle = 0.0
        while (acked := self._spools.acked(name)) is None or acked < number:
            dropped = self._spools.dropped(name) is not None
            if dropped or await self.overtaken(run_id, attempt):
                return False
            if acked is None:
                return True  # its spool is gone, because all of it was shipped
            await self._spools.wait(LOOK_SECONDS)
            idle = 0.0 if self._spools.is_shipped(name) else idle + LOOK_SECONDS
            if idle > ABANDONED_SECONDS:
                return False
        return True

    def forget(self, besides: set[str]) -> None:
        """What nobody will ask for any more: attempts, by name, that have nothing left to upload. Blocks."""
        self._spools.forget_dropped(besides)

    async def overtaken(self, run_id: str, attempt: int) -> bool:
        """Whether another attempt was begun without our word that this one had ended."""
        facts, _ = await self._recorder.read(run_subject(run_id))
        if fold(facts).attempt <= attempt:
            return False
        history, _ = await self._recorder.read(attempts_subject(run_id))
        mine = find_attempt(attempts_of(history), attempt)
        return mine is None or not mine.HasField("exited") or mine.exited.worker_id != self._worker_id
