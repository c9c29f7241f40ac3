"""Ships the batches of one attempt: into the spool, to the stream in order, deleted when acknowledged."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from runspine.eventlog.publisher import MESSAGE_ID, MessageTooLargeError, Publisher, PublishRefusedError
from runspine.eventlog.subjects import telemetry_subject
from runspine.services.worker.metrics import BATCHES, PUBLISH_SECONDS
from runspine.services.worker.telemetry.assembly.batches import KINDS
from runspine.services.worker.telemetry.assembly.spool_record import SpoolRecord
from runspine.services.worker.telemetry.spool import SpoolDamagedError, SpoolFiles
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.tasks import cancel_and_wait

log = structlog.get_logger()

# Batch n is sent only when all up to n - MAX_IN_FLIGHT are acknowledged, which bounds how far batches
# can be out of order on the stream when some are sent again.
MAX_IN_FLIGHT = 16
READ_BYTES = 1 << 20
TIDY_SECONDS = 0.2
RETRY_SECONDS = 0.5
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
T = TypeVar("T")


class Shipper:
    """Spools and publishes batches: `open`, `start`, `append`; then `finish`, `leave` or `drop`."""

    def __init__(self, publisher: Publisher, spools: SpoolDirectory, run_id: str, attempt: int) -> None:
        self._publisher = publisher
        self._spools = spools
        self._run_id = run_id
        self._attempt = attempt
        # A separate thread: a slow disk must not delay heartbeats or other attempts.
        self._disk_thread = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._name = f"{run_id}.{attempt}"
        self._note = spools.note(self._name)
        self._files: SpoolFiles | None = None
        self._held = 0
        self._written = asyncio.Event()
        self._moved = asyncio.Event()
        self._closing = False
        # Sent, oldest first; only the first is certainly not acknowledged.
        self._sent: deque[tuple[SpoolRecord, asyncio.Future[int]]] = deque()
        self._acked = 0
        self._generation = -1
        self._error: Exception | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Open the attempt's spool, with the batches already in it."""
        folder = self._spools.folder(self._name)
        self._files = await self._disk(SpoolFiles, folder, self._spools.segment_bytes)
        self._hold(self._files.unread_bytes)
        self._spools.shipped_to(self._name, self._files.acked)

    def start(self) -> None:
        """Begin to publish."""
        self._tasks = [
            asyncio.create_task(self._ship(), name=f"ship-{self._run_id}"),
            asyncio.create_task(self._tidy(), name=f"tidy-{self._run_id}"),
        ]

    @property
    def is_open(self) -> bool:
        """Whether the spool is open."""
        return self._files is not None

    def check(self) -> None:
        """Raise the error that stopped shipping, if there is one."""
        if self._error:
            raise self._error

    async def append(self, records: list[SpoolRecord], note: bytes = b"") -> None:
        """Write records to the spool, from which they are shipped; `note` is the progress at the last one."""
        assert self._files
        while True:
            self.check()
            try:
                await self._disk(self._files.append, records)
                if records and note:
                    await self._disk(self._note.write, records[-1].number, note)
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                if not self._spools.disk_full:
                    log.error("spool.disk_full", run_id=self._run_id, error=str(error))
                self._spools.disk_full = True
                await asyncio.sleep(RETRY_SECONDS)
            else:
                break
        self._spools.disk_full = False
        self._hold(sum(record.size for record in records))
        for record in records:
            BATCHES.labels(KINDS[record.kind - 1]).inc()
        self._written.set()

    async def sync(self) -> None:
        """Make appended records survive a loss of power."""
        assert self._files
        try:
            await asyncio.to_thread(self._files.sync)
        except OSError as error:
            log.error("spool.not_synced", run_id=self._run_id, error=str(error))

    async def finish(self) -> None:
        """Wait until everything is acknowledged, then remove the spool."""
        self._closing = True
        self._written.set()
        if not self._tasks:
            self.start()
        ship, _ = self._tasks
        await asyncio.shield(ship)
        self.check()
        await self._stop()
        await self._remove()

    async def leave(self) -> None:
        """Stop, and keep what is not acknowledged for the next start of the worker."""
        await self._stop()
        if self._files:
            files, self._files = self._files, None
            await self._disk(files.acknowledge, self._acked)
            await self._disk(files.close)
        self._disk_thread.shutdown(wait=False)

    async def drop(self) -> None:
        """Stop, and discard what is not acknowledged."""
        await self._stop()
        if self._files:
            await self._disk(self._spools.drop, self._name, max(self._acked, self._files.acked))
        await self._remove()

    async def _remove(self) -> None:
        if self._files:
            files, self._files = self._files, None
            await self._disk(files.remove)
        self._disk_thread.shutdown(wait=False)

    async def _stop(self) -> None:
        await cancel_and_wait(*self._tasks)
        for _, future in self._sent:
            future.cancel()
        self._spools.free(self._held)
        self._held = 0
        self._spools.shipped_to(self._name, None)

    def _hold(self, size: int) -> None:
        self._held += size
        self._spools.hold(size)

    async def _ship(self) -> None:
        assert self._files
        try:
            while True:
                records = await self._disk(self._files.read, READ_BYTES)
                for record in records:
                    await self._send(record)
                if not records:
                    if self._closing:
                        break
                    await self._written.wait()
                    self._written.clear()
            await self._until(lambda: not self._sent)
        except (PublishRefusedError, MessageTooLargeError, SpoolDamagedError, OSError) as error:
            log.error("spool.stuck", run_id=self._run_id, attempt=self._attempt, error=str(error))
            # The next append must raise it, instead of waiting without end.
            self._error = error
            self._spools.free(0)

    async def _send(self, record: SpoolRecord) -> None:
        await self._until(lambda: len(self._sent) < MAX_IN_FLIGHT)
        await self._connection()
        began = time.monotonic()
        future = await self._publisher.start(
            telemetry_subject(self._run_id, self._attempt, KINDS[record.kind - 1]),
            record.payload,
            # The same after a restart, so that JetStream deduplicates.
            {MESSAGE_ID: f"{self._run_id}:{self._attempt}:{record.number}"},
        )
        self._sent.append((record, future))
        future.add_done_callback(lambda done: self._settled(done, began))

    async def _connection(self) -> None:
        """Wait for a connection. After a reconnection, unacknowledged batches are sent first."""
        link = self._publisher.link
        while not link.connected or link.generation != self._generation:
            if not link.connected:
                await link.changed_since(link.generation, RETRY_SECONDS)
            else:
                generation = link.generation
                await self._until(lambda: not self._sent)
                self._generation = generation

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.check()
            self._moved.clear()
            await self._moved.wait()

    def _settled(self, future: asyncio.Future[int], began: float) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception):
            self._error = error
        else:
            PUBLISH_SECONDS.observe(time.monotonic() - began)
        while self._sent and _is_acked(self._sent[0][1]):
            record, _ = self._sent.popleft()
            self._acked = record.number
            self._spools.shipped_to(self._name, record.number)
            self._held -= record.size
            self._spools.free(record.size)
        self._moved.set()

    async def _tidy(self) -> None:
        """At intervals, sync what was written and delete what is acknowledged."""
        assert self._files
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            try:
                await asyncio.to_thread(self._files.sync)
                await self._disk(self._files.acknowledge, self._acked)
            except OSError as error:
                # The stream has or will have the batches: a disk that cannot be synced does not stop the run.
                log.error("spool.not_synced", run_id=self._run_id, error=str(error))

    async def _disk(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk_thread, call, *arguments)


def _is_acked(future: asyncio.Future[int]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
