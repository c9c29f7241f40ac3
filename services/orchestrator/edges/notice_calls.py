"""Calls on notices: lists from the fold of NOTICES, and requests to the notices service as facts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from runspine.clock import now_micros
from runspine.errors import Violation
from runspine.eventlog import EventLog
from runspine.eventlog.decider import handle
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import NOTICES, notice_requests_subject
from runspine.ids import new_ulid
from runspine.notice.book import NoticeBook
from runspine.notice.rules import rules_problems
from runspine.rpc.auth import caller
from runspine.rpc.errors import InvalidInputError, NotFoundError
from runspine.spec.nearest import not_accepted
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import ChannelTestRequested, Fact, NoticeRetryRequested
from runspine.wire.v1.spec_pb2 import RunSpec

DEFAULT_NOTICES, MAX_NOTICES = 100, 1_000
MIN_ID = 6


class NoticeCalls:
    """What TrainerService answers about notices."""

    def __init__(self, event_log: EventLog, book: NoticeBook, projector: Projector) -> None:
        self._log = event_log
        self._book = book
        self._projector = projector
        self._started = asyncio.Event()

    async def follow(self) -> None:
        """Read NOTICES; never returns."""
        await self._projector.start()
        self._started.set()
        await self._projector.follow(NOTICES)

    async def violations(self, spec: RunSpec) -> list[Violation]:
        """Rules of a spec that are wrong, by the channels that there are now."""
        if not spec.notify:
            return []
        await self._catch_up()
        problems = rules_problems(spec.notify, self._book.config.channels)
        return [Violation(f"spec.notify{path}", what) for path, what in problems]

    async def list(self, request: wire.ListNoticesRequest) -> wire.ListNoticesResponse:
        await self._catch_up()
        if request.run_id:
            entries = list(self._book.history(request.run_id).entries.values())
            found = sorted(entries, key=lambda entry: -entry.due.number)
        else:
            found = self._book.dead_entries() if request.dead else self._book.recent_entries()
        listed = [entry.listed() for entry in found if not request.dead or entry.state == wire.DEAD]
        limit = min(request.limit or DEFAULT_NOTICES, MAX_NOTICES)
        return wire.ListNoticesResponse(notices=listed[:limit], channels=self._book.config.channels)

    async def test(self, request: wire.TestChannelRequest) -> wire.TestChannelResponse:
        await self._catch_up()
        channels = self._book.config.channels
        if not channels:
            what = "there are no channels: set RUNSPINE_NOTICES_FILE of the notices service"
            raise InvalidInputError([Violation("channel", what)])
        if request.channel not in channels:
            raise InvalidInputError([Violation("channel", not_accepted(request.channel, channels))])
        test_id = f"test-{new_ulid()}"
        asked = ChannelTestRequested(channel=request.channel, requested_by=caller.get())
        await self._append(test_id, Fact(at=now_micros(), channel_test_requested=asked))
        return wire.TestChannelResponse(test_id=test_id)

    async def retry(self, request: wire.RetryNoticeRequest) -> wire.RetryNoticeResponse:
        await self._catch_up()
        if len(request.id) < MIN_ID:
            raise InvalidInputError(
                [Violation("id", f"give at least {MIN_ID} characters of the notice's id")]
            )
        found = [entry for entry in self._book.dead_entries() if entry.due.id.startswith(request.id)]
        if not found:
            raise NotFoundError(
                f"no dead notice has the id {request.id[:40]!r}: `runspine notify dead` lists them"
            )
        if len(found) > 1:
            what = f"is the beginning of {len(found)} ids: give more of it"
            raise InvalidInputError([Violation("id", what)])
        due = found[0].due
        asked = NoticeRetryRequested(id=due.id, requested_by=caller.get())
        await self._append(due.run_id, Fact(at=now_micros(), notice_retry_requested=asked))
        return wire.RetryNoticeResponse(notice=self._book.history(due.run_id).entries[due.id].listed())

    async def _append(self, run_id: str, fact: Fact) -> None:
        handled = await handle(self._log, notice_requests_subject(run_id), lambda _: [fact], _nothing)
        await self._projector.require(NOTICES, handled.position)

    async def _catch_up(self) -> None:
        """Wait until the book has what is on the log. Raises BehindError."""
        async with asyncio.timeout(10.0):
            await self._started.wait()
        await self._projector.require(NOTICES, (await self._log.extent(NOTICES)).last)


def _nothing(_: Iterable[Fact], state: None) -> None:
    """Requests are decided on their own."""
    return state
