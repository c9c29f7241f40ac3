"""Puts notices on the log that the facts give and that are not there yet."""

from __future__ import annotations

import structlog

from runspine.clock import now_micros
from runspine.domain.run import fold
from runspine.eventlog import CorruptError, EventLog, UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import run_subject
from runspine.notice.history import become_due
from runspine.notice.rules import notice_id
from runspine.services.notices.core.message import compose
from runspine.services.notices.core.projection import NoticeProjection
from runspine.services.notices.edges import metrics
from runspine.services.notices.edges.outbox import Outbox
from runspine.wire.v1.facts_pb2 import NoticeDue
from runspine.wire.v1.run_pb2 import Run

log = structlog.get_logger()

MAX_AT_ONCE = 100


class NoticeDecider:
    """The loop that makes notices due."""

    def __init__(
        self, event_log: EventLog, projector: Projector, projection: NoticeProjection, outbox: Outbox
    ) -> None:
        self._log = event_log
        self._projector = projector
        self._projection = projection
        self._outbox = outbox

    async def run(self) -> None:
        """Runs until cancelled; what fails is tried again in the next round."""
        async for _ in self._projector.moves(1.0):
            try:
                await self._place()
                self._draft_tests()
                for run_id in list(self._projection.drafts):
                    if not self._projection.book.is_quarantined(run_id):
                        await self._decide(run_id)
            except (UnknownOutcomeError, NatsUnreachableError) as error:
                log.warning("notices.later", error=str(error))

    async def _decide(self, run_id: str) -> None:
        drafts = list(self._projection.drafts.get(run_id, {}).values())[:MAX_AT_ONCE]
        facts = await self._outbox.append(run_id, lambda found: become_due(found, drafts, now_micros()))
        for fact in facts:
            metrics.DUE.labels(fact.notice_due.event).inc()

    async def _place(self) -> None:
        """Read the runs of facts whose run is not known here, because it ended long ago."""
        while self._projection.unplaced:
            recorded = self._projection.unplaced[0]
            run_id = recorded.subject.partition(".")[2]
            try:
                history, _ = await self._log.read(run_subject(run_id))
            except CorruptError:
                history = []
            if history:
                run = fold(fact for each in history for fact in each.commit.facts)
                self._projection.apply_attempt(recorded, run)
            self._projection.unplaced.pop(0)

    def _draft_tests(self) -> None:
        for test_id, channel in self._projection.book.tests.items():
            known = notice_id(test_id, "test", "test", channel)
            if not self._projection.book.history(test_id).knows(known):
                self._projection.drafts.setdefault(test_id, {})[known] = _test(test_id, channel, known)


def _test(test_id: str, channel: str, known: str) -> NoticeDue:
    title, text = compose(Run(id=test_id, name="This"), "test", f"channel {channel}", "test")
    return NoticeDue(
        id=known,
        run_id=test_id,
        run_name="test",
        rule="test",
        event="test",
        target=channel,
        caused_at=now_micros(),
        title=title,
        text=text,
    )
