"""Telemetry that an earlier process of this worker had spooled and not seen acknowledged."""

from __future__ import annotations

import asyncio

import structlog

from runspine.log.publisher import Publisher, Refused, TooLarge
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.telemetry_pb2 import Batch
from services.worker.batches import count_batch
from services.worker.journal import Entry
from services.worker.precedence import Precedence
from services.worker.shipper import Shipper
from services.worker.spool import Damaged, SpoolFiles
from services.worker.spools import Spools

log = structlog.get_logger()

LOOK_SECONDS = 1.0


class Leftovers:
    def __init__(self, spools: Spools, publisher: Publisher, precedence: Precedence) -> None:
        self._spools = spools
        self._publisher = publisher
        self._precedence = precedence

    async def sweep(self, held: list[Entry]) -> None:
        """Ship what no attempt in the journal will."""
        known = {entry.name for entry in held}
        await asyncio.to_thread(self._spools.forget_notes, known)
        for name in self._spools.names():
            run_id, _, attempt = name.partition(".")
            if name not in known and attempt.isdigit():
                await self.ship(Entry(run_id, int(attempt), ""))

    async def told(self, entry: Entry) -> Progress:
        """How far an attempt was when it ended, counting what had reached its spool; empty when unknown."""
        return await asyncio.to_thread(_told, self._spools, entry.name)

    def forget(self, entry: Entry) -> None:
        """Its end is told: nobody asks any more."""
        self._spools.note(entry.name).remove()

    async def ship(self, entry: Entry) -> None:
        """Publish the rest of an attempt's spool; drop it when another attempt has taken over."""
        if entry.name not in self._spools.names():
            return
        log.info("spool.left", run_id=entry.run_id, attempt=entry.attempt)
        shipper = Shipper(self._publisher, self._spools, entry.run_id, entry.attempt)
        shipping: asyncio.Future[None] | None = None
        try:
            await shipper.open()
            while not await self._precedence.overtaken(entry.run_id, entry.attempt):
                shipping = shipping or asyncio.ensure_future(shipper.finish())
                await asyncio.wait({shipping}, timeout=LOOK_SECONDS)
                if shipping.done():
                    shipping.result()
                    return
            log.warning("spool.fenced", run_id=entry.run_id, attempt=entry.attempt)
            await put_down(*([shipping] if shipping else []))
            await shipper.drop()
        except (Refused, TooLarge, Damaged, OSError) as error:
            # It stays where it is: the next start tries again.
            log.error("spool.not_shipped", run_id=entry.run_id, attempt=entry.attempt, error=str(error))
        finally:
            await put_down(*([shipping] if shipping else []))
            await shipper.leave()


def _told(spools: Spools, name: str) -> Progress:
    """Blocks."""
    number, noted = spools.note(name).read()
    progress = Progress.FromString(noted)
    if name in spools.names():
        files = SpoolFiles(spools.folder(name), spools.segment_bytes)
        try:
            # Spooled just before the end, and not in the note any more.
            for record in files.after(number):
                count_batch(progress.counts, Batch.FromString(record.payload))
        finally:
            files.close()
    return progress
