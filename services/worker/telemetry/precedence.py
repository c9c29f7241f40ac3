"""Orders checkpoints after telemetry: no run resumes from steps that are not on the stream."""

from __future__ import annotations

from runspine.domain.run import fold
from runspine.domain.run.attempts import find_attempt
from runspine.eventlog.subjects import attempts_subject, run_subject
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.outcome import attempts_of
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory

POLL_SECONDS = 1.0
# A spool that has not been shipped for this long cannot be shipped.
ABANDONED_SECONDS = 600.0


class Precedence:
    """Waits for batches to be on the stream, and detects superseded attempts."""

    def __init__(self, spools: SpoolDirectory, fact_writer: FactWriter, worker_id: str) -> None:
        self._spools = spools
        self._fact_writer = fact_writer
        self._worker_id = worker_id

    async def wait_for_batch(self, run_id: str, attempt: int, number: int) -> bool:
        """Wait until the stream has the attempt's batches up to `number`; False when it never will."""
        name = f"{run_id}.{attempt}"
        idle = 0.0
        while (acked := self._spools.acked(name)) is None or acked < number:
            dropped = self._spools.dropped(name) is not None
            if dropped or await self.is_superseded(run_id, attempt):
                return False
            if acked is None:
                return True  # its spool is gone, because all of it was shipped
            await self._spools.wait(POLL_SECONDS)
            idle = 0.0 if self._spools.is_shipped(name) else idle + POLL_SECONDS
            if idle > ABANDONED_SECONDS:
                return False
        return True

    def forget(self, except_names: set[str]) -> None:
        """Remove the marks of dropped spools, except of attempts with uploads left. Blocks."""
        self._spools.forget_dropped(except_names)

    async def is_superseded(self, run_id: str, attempt: int) -> bool:
        """Whether a later attempt was started before this worker recorded the end of this one."""
        facts = await self._fact_writer.read(run_subject(run_id))
        if fold(facts).attempt <= attempt:
            return False
        history = await self._fact_writer.read(attempts_subject(run_id))
        mine = find_attempt(attempts_of(history), attempt)
        return mine is None or not mine.HasField("exited") or mine.exited.worker_id != self._worker_id
