"""Keeps runs and changes of artifacts current: List, then Watch, restarted after every interruption."""

from __future__ import annotations

import asyncio

import structlog

from runspine.errors import RunspineError
from runspine.eventlog.subjects import ARTIFACTS
from runspine.services.dashboard.core.artifact_changes import ArtifactChanges
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.backend import Access
from runspine.tasks import run_together
from runspine.wire.v1.trainer_pb2 import DescribeLogRequest, ListRequest, WatchRequest

log = structlog.get_logger()

PAGE_SIZE = 500
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.2, 3.0
LOG_CHECK_SECONDS, LOG_CHECK_TIMEOUT_SECONDS = 2.0, 5.0


class RunFollower:
    """The subscription to all runs that all pages share."""

    def __init__(self, access: Access, table: RunTable) -> None:
        self._access = access
        self.table = table
        self.artifacts = ArtifactChanges()
        self._artifacts_end_found = False
        self._interrupted = "connecting to the orchestrator"
        self._log_error = ""

    @property
    def trouble(self) -> str:
        """Why no updates arrive, as a message to show; empty while they do."""
        return self._interrupted or self._log_error

    async def run(self) -> None:
        await run_together(self._follow(), self._check_log())

    async def _follow(self) -> None:
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                await self._find_artifacts_end()
                await self._list()
                self._interrupted, pause = "", FIRST_RETRY_SECONDS
                await self._watch()
            except RunspineError as error:
                if not self._interrupted:
                    log.warning("following.interrupted", error=str(error))
                self._interrupted = str(error)
            else:
                self._interrupted = "the orchestrator closed the stream; reconnecting"
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_RETRY_SECONDS)

    async def _check_log(self) -> None:
        """Poll the log: a Watch stream stays open and silent while NATS is down."""
        while True:
            await asyncio.sleep(LOG_CHECK_SECONDS)
            try:
                await self._access.call(
                    "trainer", "DescribeLog", DescribeLogRequest(), LOG_CHECK_TIMEOUT_SECONDS
                )
                self._log_error = ""
            except RunspineError as error:
                self._log_error = f"the log does not respond: {error}"

    async def _list(self) -> None:
        request = ListRequest(page_size=PAGE_SIZE)
        while True:
            answer = await self._access.call("trainer", "List", request)
            for summary in answer.runs:
                self.table.apply_summary(summary)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def _find_artifacts_end(self) -> None:
        """Pages are drawn from listings: only facts after the start of this process change them.

        Once: what an interruption has hidden is read afterwards, also where the stream was empty before.
        """
        if not self._artifacts_end_found:
            answer = await self._access.call("trainer", "DescribeLog", DescribeLogRequest())
            ends = {info.name: info.last_sequence for info in answer.streams}
            self.artifacts.position = ends.get(ARTIFACTS, 0)
            self._artifacts_end_found = True

    async def _watch(self) -> None:
        request = WatchRequest(
            after=self.table.position,
            progress=True,
            streams=[ARTIFACTS],
            positions={ARTIFACTS: self.artifacts.position},
        )
        async for message in self._access.stream("trainer", "Watch", request):
            if message.stream == ARTIFACTS:
                self.artifacts.apply(message)
            else:
                self.table.apply_watch(message)
