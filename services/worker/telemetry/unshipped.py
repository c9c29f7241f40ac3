"""Spools that an earlier process of this worker left, shipped after a restart."""

from __future__ import annotations

import asyncio

import structlog

from runspine.eventlog.publisher import MessageTooLargeError, Publisher, PublishRefusedError
from runspine.services.worker.facts.journal import JournalEntry
from runspine.services.worker.telemetry.assembly.batches import count_batch
from runspine.services.worker.telemetry.precedence import Precedence
from runspine.services.worker.telemetry.shipper import Shipper
from runspine.services.worker.telemetry.spool import SpoolDamagedError, SpoolFiles
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.telemetry_pb2 import Batch

log = structlog.get_logger()

POLL_SECONDS = 1.0


class UnshippedSpools:
    """Ships or drops the spools of attempts that ended with an earlier process."""

    def __init__(self, spools: SpoolDirectory, publisher: Publisher, precedence: Precedence) -> None:
        self._spools = spools
        self._publisher = publisher
        self._precedence = precedence

    async def sweep(self, held: list[JournalEntry]) -> None:
        """Ship the spools of attempts that are not in the journal."""
        known = {entry.name for entry in held}
        await asyncio.to_thread(self._spools.forget_notes, known)
        for name in self._spools.names():
            run_id, _, attempt = name.partition(".")
            if name not in known and attempt.isdigit():
                await self.ship(JournalEntry(run_id, int(attempt), ""))

    async def last_progress(self, entry: JournalEntry) -> Progress:
        """Progress of an attempt at its end, counting what reached its spool; empty when unknown."""
        return await asyncio.to_thread(_read_progress, self._spools, entry.name)

    def forget(self, entry: JournalEntry) -> None:
        """Remove the note of an attempt whose end is on the log."""
        self._spools.note(entry.name).remove()

    async def ship(self, entry: JournalEntry) -> None:
        """Publish the rest of an attempt's spool; drop it when a later attempt has superseded it."""
        if entry.name not in self._spools.names():
            return
        log.info("spool.left", run_id=entry.run_id, attempt=entry.attempt)
        shipper = Shipper(self._publisher, self._spools, entry.run_id, entry.attempt)
        shipping: asyncio.Future[None] | None = None
        try:
            await shipper.open()
            while not await self._precedence.is_superseded(entry.run_id, entry.attempt):
                shipping = shipping or asyncio.ensure_future(shipper.finish())
                await asyncio.wait({shipping}, timeout=POLL_SECONDS)
                if shipping.done():
                    shipping.result()
                    return
            log.warning("spool.fenced", run_id=entry.run_id, attempt=entry.attempt)
            await cancel_and_wait(*([shipping] if shipping else []))
            await shipper.drop()
        except (PublishRefusedError, MessageTooLargeError, SpoolDamagedError, OSError) as error:
            # The spool stays: the next start tries again.
            log.error("spool.not_shipped", run_id=entry.run_id, attempt=entry.attempt, error=str(error))
        finally:
            await cancel_and_wait(*([shipping] if shipping else []))
            await shipper.leave()


def _read_progress(spools: SpoolDirectory, name: str) -> Progress:
    """Read the note and count the batches after it. Blocks."""
    number, data = spools.note(name).read()
    progress = Progress.FromString(data)
    if name in spools.names():
        files = SpoolFiles(spools.folder(name), spools.segment_bytes)
        try:
            # Spooled just before the end, and not counted in the note.
            for record in files.after(number):
                count_batch(progress.counts, Batch.FromString(record.payload))
        finally:
            files.close()
    return progress
