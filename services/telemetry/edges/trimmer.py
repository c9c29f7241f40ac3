"""Removes batches from the TELEMETRY stream that every partition has archived."""

from __future__ import annotations

import asyncio
import time

import structlog

from runspine.eventlog.api import ask
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.subjects import TELEMETRY
from runspine.services.telemetry.edges import metrics
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog

log = structlog.get_logger()


class Trimmer:
    """Trims the stream some seconds after a commit, so that every reader knows the commit by then."""

    def __init__(self, link: NatsConnection, catalog: ArchiveCatalog, wait: float) -> None:
        self._link = link
        self._catalog = catalog
        self._wait = wait
        self._committed: list[tuple[float, int]] = []
        self._trimmed = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, max(self._wait / 4, 0.1)))
            if self._catalog.loaded:
                self._note(min(chain.archive.cursor for chain in self._catalog.chains))
                await self._trim()

    def _note(self, cursor: int) -> None:
        if cursor > (self._committed[-1][1] if self._committed else self._trimmed):
            self._committed.append((time.monotonic(), cursor))

    async def _trim(self) -> None:
        due = [cursor for at, cursor in self._committed if time.monotonic() - at >= self._wait]
        if not due:
            return
        try:
            answer = await ask(self._link, f"STREAM.PURGE.{TELEMETRY}", {"seq": due[-1] + 1})
        except NatsUnreachableError as error:
            log.info("trim.waiting", error=str(error))
            return
        except ServerRefusedError as error:
            log.warning("trim.refused", error=str(error))
            return
        self._committed = self._committed[len(due) :]
        self._trimmed = due[-1]
        metrics.TRIMMED.set(self._trimmed)
        log.debug("stream.trimmed", up_to=self._trimmed, removed=answer.get("purged"))
