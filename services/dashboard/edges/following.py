"""Keep the book of runs current: a listing, then everything that happens, again after any interruption."""

from __future__ import annotations

import asyncio

import structlog

from runspine.errors import RunspineError
from runspine.tasks import run_together
from runspine.wire.v1.trainer_pb2 import DescribeLogRequest, ListRequest, WatchRequest
from services.dashboard.core.runbook import RunBook
from services.dashboard.edges.backend import Access

log = structlog.get_logger()

PAGE = 500
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 3.0
BEAT_SECONDS, BEAT_PATIENCE = 2.0, 5.0


class Following:
    """The one subscription to all runs that every page shares."""

    def __init__(self, access: Access, book: RunBook) -> None:
        self._access = access
        self.book = book
        self._cut = "connecting to the orchestrator"
        self._log_away = ""

    @property
    def trouble(self) -> str:
        """Why nothing new arrives, for people; empty while all is well."""
        return self._cut or self._log_away

    async def run(self) -> None:
        await run_together(self._follow(), self._ask_for_the_log())

    async def _follow(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._list()
                self._cut, pause = "", FIRST_PAUSE
                await self._watch()
            except RunspineError as error:
                if not self._cut:
                    log.warning("following.interrupted", error=str(error))
                self._cut = str(error)
            else:
                self._cut = "the orchestrator has ended the stream; asking again"
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _ask_for_the_log(self) -> None:
        """A stream stays open and silent while NATS is away: only a question tells."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self._access.ask("trainer", "DescribeLog", DescribeLogRequest(), BEAT_PATIENCE)
                self._log_away = ""
            except RunspineError as error:
                self._log_away = f"the log does not answer: {error}"

    async def _list(self) -> None:
        request = ListRequest(page_size=PAGE)
        while True:
            answer = await self._access.ask("trainer", "List", request)
            for summary in answer.runs:
                self.book.take_summary(summary)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def _watch(self) -> None:
        request = WatchRequest(after=self.book.position, progress=True)
        async for message in self._access.follow("trainer", "Watch", request):
            self.book.take_watch(message)
