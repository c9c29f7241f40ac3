"""Removes from the TELEMETRY stream what every partition has archived."""

from __future__ import annotations

import asyncio
import json
import time

import structlog

from runspine.log.link import Link, Unreachable
from runspine.log.subjects import TELEMETRY
from services.telemetry.edges import metrics
from services.telemetry.edges.chain import Catalog

log = structlog.get_logger()


class Trimmer:
    """Waits a little after a commit, so that every reader has heard of it before the stream is cut."""

    def __init__(self, link: Link, catalog: Catalog, wait: float) -> None:
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
        body = json.dumps({"seq": due[-1] + 1}).encode()
        try:
            answer = json.loads((await self._link.request(f"$JS.API.STREAM.PURGE.{TELEMETRY}", body)).data)
        except Unreachable as error:
            log.info("trim.waiting", error=str(error))
            return
        if "error" in answer:
            log.warning("trim.refused", error=answer["error"].get("description"))
            return
        self._committed = self._committed[len(due) :]
        self._trimmed = due[-1]
        metrics.TRIMMED.set(self._trimmed)
        log.debug("stream.trimmed", up_to=self._trimmed, removed=answer.get("purged"))
