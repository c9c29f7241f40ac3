"""All notices, the fold of NOTICES: the notices service sends from it, the orchestrator lists it. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from runspine.eventlog import Recorded, Version
from runspine.eventlog.subjects import NOTICES, NOTICES_CONFIG, notices_subject
from runspine.notice.history import NoticeEntry, NoticeHistory
from runspine.wire.v1.facts_pb2 import NoticesConfigured
from runspine.wire.v1.run_pb2 import Quarantine
from runspine.wire.v1.trainer_pb2 import DEAD, PENDING, SENT

# Sent notices that are kept in whole; of older ones only the ids are.
KEPT_SENT = 1000
# Requests for tests that are kept until they are answered.
KEPT_TESTS = 1000


class NoticeBook:
    """Notices by run, and which runs have pending ones. A projection of NOTICES."""

    name = "notice-book"
    schema = 1
    streams: tuple[str, ...] = (NOTICES,)

    def __init__(self) -> None:
        self.config = NoticesConfigured()
        self.histories: dict[str, NoticeHistory] = {}
        self.versions: dict[str, Version] = {}
        # Runs with pending notices, and with dead ones.
        self.open: set[str] = set()
        self.dead: set[str] = set()
        # Channels to test by the id of the test.
        self.tests: OrderedDict[str, str] = OrderedDict()
        self.quarantined: set[str] = set()
        self._sent: deque[tuple[str, str]] = deque()

    def apply(self, recorded: Recorded) -> None:
        if recorded.subject == NOTICES_CONFIG:
            for fact in recorded.commit.facts:
                self.config = fact.notices_configured
            return
        kind, _, run_id = recorded.subject.partition(".")
        history = self.histories.setdefault(run_id, NoticeHistory())
        if kind == "notices":
            self.versions[run_id] = recorded.version()
        for fact in recorded.commit.facts:
            history.apply(fact)
            if fact.HasField("channel_test_requested"):
                self._add_test(run_id, fact.channel_test_requested.channel)
            elif fact.HasField("notice_due"):
                self.tests.pop(run_id, None)
            elif fact.HasField("notice_sent"):
                self._keep_sent(run_id, fact.notice_sent.id)
        self._index(run_id, history)

    def apply_quarantine(self, quarantine: Quarantine) -> None:
        if quarantine.released:
            self.quarantined.discard(quarantine.subject)
        else:
            self.quarantined.add(quarantine.subject)

    def dump(self) -> bytes:
        """No snapshot: what is kept of a notice is small."""
        return b""

    def load(self, state: bytes) -> None:
        raise AssertionError("no snapshots are made of this")

    def history(self, run_id: str) -> NoticeHistory:
        return self.histories.get(run_id) or NoticeHistory()

    def version(self, run_id: str) -> Version:
        return self.versions.get(run_id, Version())

    def is_quarantined(self, run_id: str) -> bool:
        return notices_subject(run_id) in self.quarantined

    def pending_heads(self) -> Iterator[tuple[str, NoticeEntry]]:
        """The first pending notice of each target of each run."""
        for run_id in sorted(self.open):
            if not self.is_quarantined(run_id):
                for entry in self.histories[run_id].heads():
                    yield run_id, entry

    def dead_entries(self) -> list[NoticeEntry]:
        found = [
            entry
            for run_id in self.dead
            for entry in self.histories[run_id].entries.values()
            if entry.state == DEAD
        ]
        return sorted(found, key=lambda entry: -entry.at)

    def recent_entries(self) -> list[NoticeEntry]:
        """Those that are pending or dead, and the newest that were sent; newest first."""
        runs = self.open | self.dead | {run_id for run_id, _ in self._sent}
        found = [entry for run_id in runs for entry in self.histories[run_id].entries.values()]
        return sorted(found, key=lambda entry: (-entry.at, -entry.due.number))

    def _keep_sent(self, run_id: str, notice_id: str) -> None:
        self._sent.append((run_id, notice_id))
        while len(self._sent) > KEPT_SENT:
            old_run, old_id = self._sent.popleft()
            entry = self.histories[old_run].entries.get(old_id)
            if entry is not None and entry.state == SENT:
                self.histories[old_run].settle(old_id)

    def _index(self, run_id: str, history: NoticeHistory) -> None:
        states = {entry.state for entry in history.entries.values()}
        for state, runs in ((PENDING, self.open), (DEAD, self.dead)):
            if state in states:
                runs.add(run_id)
            else:
                runs.discard(run_id)

    def _add_test(self, test_id: str, channel: str) -> None:
        self.tests[test_id] = channel
        while len(self.tests) > KEPT_TESTS:
            self.tests.popitem(last=False)
