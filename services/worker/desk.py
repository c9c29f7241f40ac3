"""Where one attempt hands in its files: checked and linked in order, then left to the uploads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

from runspine.tasks import put_down
from services.worker.announced import Announced
from services.worker.artifact import NotAccepted
from services.worker.findings import look
from services.worker.metrics import UPLOADS
from services.worker.redact import Redactor
from services.worker.uploads import Uploads

Say = Callable[[str], Awaitable[None]]


class Desk:
    def __init__(
        self,
        uploads: Uploads,
        announced: Announced,
        run_id: str,
        attempt: int,
        run_dir: Path,
        redact: Redactor,
        say: Say,
    ) -> None:
        self._uploads = uploads
        self._run_id = run_id
        self._attempt = attempt
        self._run_dir = run_dir
        self._redact = redact
        self._say = say
        self._announced = announced
        self._queue: asyncio.Queue[tuple[int, dict[str, Any], int]] = asyncio.Queue()
        # Path and digest of what was handed in.
        self._known: set[tuple[str, str]] = set()
        self._clerk: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._clerk = asyncio.create_task(self._work(), name=f"artifacts-{self._run_id}")

    def announce(self, event: dict[str, Any], after: int) -> None:
        """Take an artifact line, said after this batch of telemetry."""
        self._queue.put_nowait((self._announced.add(event, after, self._redact), event, after))

    async def take_up(self) -> None:
        """What an earlier process had read and not handed in. Instead of `start`."""
        for event, after in await asyncio.to_thread(self._announced.left):
            await self._hand_in(event, after)

    async def search(self, seconds: float) -> None:
        """After the trainer's end: hand in what it has left without a word, for so long at most."""
        await self._all_handed_in()
        deadline = time.monotonic() + seconds
        found = await asyncio.to_thread(look, self._run_dir)
        for remark in found.remarks:
            await self._say(remark)
        for index, finding in enumerate(found.files):
            if time.monotonic() > deadline:
                left = len(found.files) - index
                await self._say(f"{left:,} files were not looked at within {seconds:.0f} s: not uploaded")
                return
            event = {"kind": finding.kind, "path": finding.path, "meta": {"found": True}}
            await self._hand_in(event, 0, unless=self._known)

    async def finish(self, seconds: float) -> None:
        """After the trainer's end: everything is handed in, and checkpoints are stored if S3 lets us."""
        await self._all_handed_in()
        left = await self._uploads.settled(self._run_id, seconds)
        if left:
            what = "1 file is" if left == 1 else f"{left} files are"
            why = f": {self._uploads.trouble}" if self._uploads.trouble else ""
            await self._say(f"{what} not uploaded yet; the upload goes on after the run's end{why}")
        for name in self._uploads.take_spoilt(self._run_id):
            await self._say(
                f"artifact {name} was overwritten before it could be uploaded: "
                "write each one to a file of its own, or to a draft that is then renamed"
            )

    async def _all_handed_in(self) -> None:
        assert self._clerk
        done = asyncio.create_task(self._queue.join())
        try:
            await asyncio.wait({done, self._clerk}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await put_down(done)
        if self._clerk.done():
            self._clerk.result()  # a clerk that failed would be waited for in vain

    async def close(self) -> None:
        if self._clerk:
            await put_down(self._clerk)

    async def _work(self) -> None:
        while True:
            number, event, after = await self._queue.get()
            try:
                await self._hand_in(event, after)
                self._announced.done(number)
            finally:
                self._queue.task_done()

    async def _hand_in(
        self, event: dict[str, Any], after: int, unless: Collection[tuple[str, str]] = ()
    ) -> None:
        try:
            intent = await asyncio.to_thread(
                self._uploads.intents.accept,
                event,
                self._run_id,
                self._attempt,
                self._run_dir,
                self._redact,
                after=after,
                unless=unless,
            )
        except (NotAccepted, OSError) as error:
            UPLOADS.labels("refused").inc()
            path = str(event.get("path"))[:200]
            await self._say(f"artifact {path} is not uploaded: {error}")
            return
        if intent is not None:
            self._known.add((intent.path, intent.digest))
            await self._uploads.add(intent)
