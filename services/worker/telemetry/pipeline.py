"""Telemetry of one attempt, from the trainer's lines to the stream, without loss.

Lines are gathered for a moment, cut into batches and spooled; the shipper publishes them. When the spool
is full, `wait_for_space` blocks: the pipes are no longer read, they fill, and the trainer waits. Nothing is
dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from runspine.clock import now_micros
from runspine.domain.event_scalars import EventScalar
from runspine.eventlog.publisher import MessageTooLargeError, Publisher, PublishRefusedError
from runspine.services.worker.metrics import HELD_BACK, LINES, LOG_LINES, MALFORMED, SPOOL_FULL, STEPS
from runspine.services.worker.protocol.frame_splitter import Frame
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.services.worker.telemetry.assembly.description import TrainerDescription
from runspine.services.worker.telemetry.assembly.spool_record import SpoolRecord
from runspine.services.worker.telemetry.shipper import Shipper
from runspine.services.worker.telemetry.spool import SpoolDamagedError
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import Counts, Progress
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import LogSource

log = structlog.get_logger()

# Longest time that telemetry waits for more to fill a batch.
FLUSH_SECONDS = 0.1
# Read and not yet spooled: a disk that is slow for a moment must not slow the trainer.
MAX_HELD_BYTES = 4 << 20
POLL_SECONDS = 1.0
LEAVE_SECONDS = 2.0
# A spool that is full repeatedly is logged at this interval.
WARNING_SECONDS = 60.0


class TelemetryPipeline:
    """Reads, batches, spools and ships the telemetry of one attempt."""

    def __init__(
        self,
        run_id: str,
        attempt: int,
        spec: RunSpec,
        redact: Redactor,
        publisher: Publisher,
        spools: SpoolDirectory,
        *,
        episodes_before: int = 0,
        resumed_at: int = 0,
    ) -> None:
        self._run_id = run_id
        self._assembler = BatchAssembler(
            run_id,
            attempt,
            spec,
            redact if redact.longest else None,
            episodes_before=episodes_before,
            resumed_at=resumed_at,
        )
        # Called once, when the training has reached the spec's max_episodes.
        self.on_max_episodes: Callable[[], None] | None = None
        self._max_episodes = spec.max_episodes
        self._assembler.on_artifact = self._add_file
        # Announced files that wait until the telemetry before them is spooled.
        self._files: list[dict[str, Any]] = []
        self._on_artifact: Callable[[dict[str, Any], int], None] = _ignore
        self._last = 0
        self._spools = spools
        self._shipper = Shipper(publisher, spools, run_id, attempt)
        self._ready: list[SpoolRecord] = []
        self._held = 0
        self._changed = asyncio.Event()
        self._spooled = asyncio.Event()
        self._closing = False
        self._counted = Counts()
        self._lines_counted = 0
        self._full_lock = asyncio.Lock()
        self._warn_at = 0.0
        self._writer: asyncio.Task[None] | None = None
        # Seconds for which a full spool has held up the trainer, and what is full now.
        self.slowed = 0.0
        self._full = ""

    @property
    def counts(self) -> Counts:
        """What was read so far."""
        return self._assembler.counts

    @property
    def lines_read(self) -> int:
        """Lines of the trainer so far."""
        return self._assembler.lines_read

    @property
    def is_held_up(self) -> bool:
        """Whether the trainer waits for a full spool."""
        return bool(self._full)

    @property
    def progress(self) -> Progress:
        """How far the trainer is."""
        progress = self._assembler.progress(now_micros())
        progress.held_back, progress.held_back_seconds = self._full, self.slowed
        return progress

    @property
    def description(self) -> TrainerDescription:
        """What the trainer reported about itself."""
        return self._assembler.description

    def add_metrics(self, values: dict[str, float]) -> None:
        """Add metrics of the worker."""
        self._assembler.add_metrics(values, now_micros())
        self.cut_batches()

    def add_scalars(self, scalars: Iterable[EventScalar]) -> None:
        """Add scalars of event files, except series that the trainer reports itself."""
        at = now_micros()
        for scalar in scalars:
            self._assembler.add_scalar(scalar, at)
        self.cut_batches()

    @property
    def slowed_reason(self) -> str:
        """A suffix for the reason of an attempt's end, when the trainer was held up."""
        return f" (held up for {self.slowed:.0f} s by a full spool)" if self.slowed >= 1 else ""

    def on_artifact(self, call: Callable[[dict[str, Any], int], None]) -> None:
        """Set the callback for artifact lines; it gets the number of the batch that precedes each.

        It is called after that batch is on disk: a checkpoint must not outlive the steps before it.
        """
        self._on_artifact = call

    async def start(self) -> None:
        """Open the spool and begin to write and ship."""
        await self._shipper.open()
        self._shipper.start()
        self._writer = asyncio.create_task(self._write(), name=f"spool-{self._run_id}")

    def take(self, line: bytes | Frame, source: LogSource, at: int) -> str | None:
        """Add a line or frame of the trainer; a text if it is for the log. Call `cut_batches` soon after."""
        if isinstance(line, Frame):
            return self._assembler.take_frame(line, at)
        return self._assembler.take(line, source, at)

    def log_line(self, text: str) -> None:
        """Add a log line of the worker."""
        self._assembler.log_line(text, now_micros())
        self.cut_batches()

    def cut_batches(self) -> None:
        """Cut full batches and hand them to the writer. Call it after some lines."""
        self._add_ready(self._assembler.cut(now_micros()))
        self._count()
        self._changed.set()
        if self._max_episodes and self.on_max_episodes and self.max_episodes_reached:
            call, self.on_max_episodes = self.on_max_episodes, None
            call()

    @property
    def max_episodes_reached(self) -> bool:
        """Whether the run has trained as many episodes as its spec asks for; False when it asks for none."""
        return 0 < self._max_episodes <= self._assembler.episodes_trained

    async def wait_for_space(self) -> None:
        """Wait until more may be read from the trainer. Raises the error that prevents storing telemetry."""
        self._check()
        while self._held >= MAX_HELD_BYTES and not self._spools.full:
            self._spooled.clear()
            await self._spooled.wait()
            self._check()
        if self._spools.full:
            # One of the streams waits and logs, the others wait for it.
            async with self._full_lock:
                await self._wait_until_spacious()

    async def wait_for_announcements(self) -> None:
        """Wait until the callback has been called for every announced file."""
        while self._files:
            self._check()
            self._spooled.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._spooled.wait()

    async def finish(self) -> None:
        """Wait until all telemetry is on the stream."""
        self._closing = True
        self._changed.set()
        if self._writer:
            await asyncio.shield(self._writer)
        await self._shipper.finish()

    async def leave(self) -> None:
        """Stop; telemetry is spooled, and shipped when the worker starts again."""
        await self._stop()
        if not self._shipper.is_open:
            return
        rest = [*self._ready, *self._assembler.cut(now_micros(), final=True)]
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._shipper.append(rest, self._assembler.note(now_micros()))
                await self._announce(rest, len(self._files))
        except (OSError, TimeoutError, PublishRefusedError, MessageTooLargeError, SpoolDamagedError) as error:
            log.error("spool.left_unwritten", run_id=self._run_id, batches=len(rest), error=str(error))
        await self._shipper.leave()

    async def drop(self) -> None:
        """Stop and drop the spool: nothing more of this attempt may reach the stream."""
        await self._stop()
        await self._shipper.drop()

    async def _stop(self) -> None:
        if self._writer:
            await cancel_and_wait(self._writer)

    def _check(self) -> None:
        self._shipper.check()
        if self._writer and self._writer.done():
            self._writer.result()

    async def _write(self) -> None:
        """Spool full batches at once, and the rest at intervals."""
        flushed = 0.0
        while True:
            await self._wait(flushed + FLUSH_SECONDS)
            at, clock = now_micros(), time.monotonic()
            files = len(self._files)
            if self._closing or files or clock >= flushed + FLUSH_SECONDS:
                self._add_ready(self._assembler.cut(at, everything=True, final=self._closing))
                flushed = clock
            if self._ready or files:
                # Cancelled in between, they are appended again: the spool skips known numbers.
                records = list(self._ready)
                await self._shipper.append(records, self._assembler.note(at))
                del self._ready[: len(records)]
                self._held -= sum(record.size for record in records)
                await self._announce(records, files)
                self._spooled.set()
            elif self._closing:
                return

    async def _wait(self, due: float) -> None:
        """Wait until a batch is ready or a flush is due; without end when there is no telemetry."""
        while not self._ready and not self._files and not self._closing:
            left = due - time.monotonic()
            if not self._assembler.empty and left <= 0:
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._assembler.empty else left):
                    await self._changed.wait()

    async def _announce(self, records: list[SpoolRecord], files: int) -> None:
        """Announce the first `files` files: the records before them are spooled."""
        self._last = records[-1].number if records else self._last
        if files:
            await self._shipper.sync()
        for fields in self._files[:files]:
            self._on_artifact(fields, self._last)
        del self._files[:files]

    def _add_file(self, fields: dict[str, Any]) -> None:
        self._files.append(fields)

    def _add_ready(self, records: list[SpoolRecord]) -> None:
        self._ready += records
        self._held += sum(record.size for record in records)

    async def _wait_until_spacious(self) -> None:
        began = clock = time.monotonic()
        if not self._spools.full:
            return
        self._full = f"{self._spools.which} is full"
        logging = began >= self._warn_at
        if logging:
            self._warn_at = began + WARNING_SECONDS
            log.warning("spool.full", run_id=self._run_id, used=self._spools.used)
            self.log_line(f"{self._full}: the trainer waits until its telemetry can be stored")
        HELD_BACK.inc()
        try:
            while not self._spools.spacious:
                await self._spools.wait(POLL_SECONDS)
                self._check()
                before, clock = clock, time.monotonic()
                SPOOL_FULL.inc(clock - before)
                self.slowed += clock - before
        finally:
            HELD_BACK.dec()
            self._full = ""
        if logging:
            self.log_line(f"the trainer continues: it was held up for {clock - began:.1f} s")

    def _count(self) -> None:
        """Update the Prometheus counters, once for many lines."""
        counts = self._assembler.counts
        LINES.inc(self._assembler.lines_read - self._lines_counted)
        STEPS.inc(counts.steps - self._counted.steps)
        MALFORMED.inc(counts.malformed - self._counted.malformed)
        LOG_LINES.inc(counts.log_lines - self._counted.log_lines)
        self._lines_counted = self._assembler.lines_read
        self._counted.CopyFrom(counts)


def _ignore(fields: dict[str, Any], after: int) -> None:
    """The default callback for artifact lines."""
