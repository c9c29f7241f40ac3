"""One attempt's telemetry from the trainer's lines to the stream, none of it lost.

What is read is gathered for a moment, cut into batches and spooled; the shipper takes it from there.
When the spool is full, `room` waits: the pipes are read no further, they fill, and the trainer is
slowed instead of its words being dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import structlog

from runspine.log.publisher import Publisher, Refused, TooLarge
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import Counts, Progress
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import LogSource
from services.worker.metrics import HELD_BACK, LINES, LOG_LINES, MALFORMED, SPOOL_FULL, STEPS
from services.worker.recorder import now
from services.worker.recording import Recording
from services.worker.redact import Redactor
from services.worker.shipper import Shipper
from services.worker.spool import Damaged, Record
from services.worker.spools import Spools

log = structlog.get_logger()

# Longest that something said waits for more to go with it.
FLUSH_SECONDS = 0.1
# Read and not yet spooled: a disk that is slow for a moment must not slow the trainer.
HELD_BYTES = 4 << 20
LOOK_AGAIN_SECONDS = 1.0
LEAVE_SECONDS = 2.0
# A spool that is full again and again is worth a line now and then.
TELL_AGAIN_SECONDS = 60.0


class Telemetry:
    def __init__(
        self,
        run_id: str,
        attempt: int,
        spec: RunSpec,
        redact: Redactor,
        publisher: Publisher,
        spools: Spools,
    ) -> None:
        self._run_id = run_id
        self._recording = Recording(run_id, attempt, spec, redact if redact.longest else None)
        self._recording.on_artifact = self._announced
        # Files that were announced, and wait until what was said before them is spooled.
        self._files: list[dict[str, Any]] = []
        self._hear_of_file: Callable[[dict[str, Any], int], None] = _ignore
        self._last = 0
        self._spools = spools
        self._shipper = Shipper(publisher, spools, run_id, attempt)
        self._ready: list[Record] = []
        self._held = 0
        self._changed = asyncio.Event()
        self._spooled = asyncio.Event()
        self._closing = False
        self._told = Counts()
        self._lines_told = 0
        self._full_lock = asyncio.Lock()
        self._tell_full_at = 0.0
        self._writer: asyncio.Task[None] | None = None
        # How long a full spool has held up the trainer, and what is full now.
        self.slowed = 0.0
        self._full = ""

    @property
    def counts(self) -> Counts:
        return self._recording.counts

    @property
    def progress(self) -> Progress:
        progress = self._recording.progress(now())
        progress.held_back, progress.held_back_seconds = self._full, self.slowed
        return progress

    @property
    def slowed_reason(self) -> str:
        """A word for the reason of an end, when the trainer was held up."""
        return f" (held up for {self.slowed:.0f} s by a full spool)" if self.slowed >= 1 else ""

    def on_artifact(self, call: Callable[[dict[str, Any], int], None]) -> None:
        """Who hears of the trainer's files, and after which batch each was announced.

        Not before that batch is on disk: a checkpoint must not outlive the steps that led to it.
        """
        self._hear_of_file = call

    async def start(self) -> None:
        await self._shipper.open()
        self._shipper.start()
        self._writer = asyncio.create_task(self._write(), name=f"spool-{self._run_id}")

    def take(self, line: bytes, source: LogSource, at: int) -> str | None:
        """One line as the trainer wrote it; its text when it is a log line. Call `settle` soon after."""
        return self._recording.take(line, source, at)

    def remark(self, text: str) -> None:
        """A line of the worker's own."""
        self._recording.remark(text, now())
        self.settle()

    def settle(self) -> None:
        """After some lines: what there is enough of goes on its way."""
        self._get_ready(self._recording.cut(now()))
        self._count()
        self._changed.set()

    async def room(self) -> None:
        """Until more may be read from the trainer. Raises what keeps telemetry from being stored."""
        self._check()
        while self._held >= HELD_BYTES and not self._spools.full:
            self._spooled.clear()
            await self._spooled.wait()
            self._check()
        if self._spools.full:
            # One of the streams waits and tells, the others wait behind it.
            async with self._full_lock:
                await self._wait_for_space()

    async def passed_on(self) -> None:
        """Until every file that was announced has been told of."""
        while self._files:
            self._check()
            self._spooled.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await self._spooled.wait()

    async def finish(self) -> None:
        """Until everything that was said is on the stream."""
        self._closing = True
        self._changed.set()
        if self._writer:
            await asyncio.shield(self._writer)
        await self._shipper.finish()

    async def leave(self) -> None:
        """Stop; what was said is spooled, and shipped when the worker starts again."""
        await self._stop()
        if not self._shipper.is_open:
            return
        rest = [*self._ready, *self._recording.cut(now(), final=True)]
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._shipper.append(rest, self._recording.note(now()))
                await self._pass_on(rest, len(self._files))
        except (OSError, TimeoutError, Refused, TooLarge, Damaged) as error:
            log.error("spool.left_unwritten", run_id=self._run_id, batches=len(rest), error=str(error))
        await self._shipper.leave()

    async def drop(self) -> None:
        """Stop; nothing more of this attempt may reach the stream."""
        await self._stop()
        await self._shipper.drop()

    async def _stop(self) -> None:
        if self._writer:
            await put_down(self._writer)

    def _check(self) -> None:
        self._shipper.check()
        if self._writer and self._writer.done():
            self._writer.result()

    async def _write(self) -> None:
        """Spool what is ready, and what was gathered when it is time."""
        flushed = 0.0
        while True:
            await self._wait(flushed + FLUSH_SECONDS)
            at, clock = now(), time.monotonic()
            files = len(self._files)
            if self._closing or files or clock >= flushed + FLUSH_SECONDS:
                self._get_ready(self._recording.cut(at, everything=True, final=self._closing))
                flushed = clock
            if self._ready or files:
                # Cancelled in between, they are appended again: the spool knows their numbers.
                records = list(self._ready)
                await self._shipper.append(records, self._recording.note(at))
                del self._ready[: len(records)]
                self._held -= sum(record.size for record in records)
                await self._pass_on(records, files)
                self._spooled.set()
            elif self._closing:
                return

    async def _wait(self, due: float) -> None:
        """Until something is ready, or is due; for ever when nothing was said."""
        while not self._ready and not self._files and not self._closing:
            left = due - time.monotonic()
            if not self._recording.empty and left <= 0:
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._recording.empty else left):
                    await self._changed.wait()

    async def _pass_on(self, records: list[Record], files: int) -> None:
        """These are spooled, and with them all that was said before so many files."""
        self._last = records[-1].number if records else self._last
        if files:
            await self._shipper.sync()
        for said in self._files[:files]:
            self._hear_of_file(said, self._last)
        del self._files[:files]

    def _announced(self, said: dict[str, Any]) -> None:
        self._files.append(said)

    def _get_ready(self, records: list[Record]) -> None:
        self._ready += records
        self._held += sum(record.size for record in records)

    async def _wait_for_space(self) -> None:
        began = clock = time.monotonic()
        if not self._spools.full:
            return
        self._full = f"{self._spools.which} is full"
        telling = began >= self._tell_full_at
        if telling:
            self._tell_full_at = began + TELL_AGAIN_SECONDS
            log.warning("spool.full", run_id=self._run_id, used=self._spools.used)
            self.remark(f"{self._full}: the trainer waits until its telemetry can be stored")
        HELD_BACK.inc()
        try:
            while not self._spools.spacious:
                await self._spools.wait(LOOK_AGAIN_SECONDS)
                self._check()
                before, clock = clock, time.monotonic()
                SPOOL_FULL.inc(clock - before)
                self.slowed += clock - before
        finally:
            HELD_BACK.dec()
            self._full = ""
        if telling:
            self.remark(f"the trainer goes on: it was held up for {clock - began:.1f} s")

    def _count(self) -> None:
        """For Prometheus, once for many lines."""
        counts = self._recording.counts
        LINES.inc(self._recording.lines_read - self._lines_told)
        STEPS.inc(counts.steps - self._told.steps)
        MALFORMED.inc(counts.malformed - self._told.malformed)
        LOG_LINES.inc(counts.log_lines - self._told.log_lines)
        self._lines_told = self._recording.lines_read
        self._told.CopyFrom(counts)


def _ignore(said: dict[str, Any], after: int) -> None:
    """Nobody uploads."""
