"""The notices of one run: the fold of notices.<run_id>, and the decisions on it. Pure.

A notice is due once. For each target the first pending one is sent until it is accepted or dead; then
comes the next: so the order of a run is kept at every target.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runspine.wire.v1.facts_pb2 import Fact, NoticeClaimed, NoticeDue, NoticeFailed, NoticeSent
from runspine.wire.v1.trainer_pb2 import DEAD, PENDING, SENT, Notice, NoticeState

MICROS = 1_000_000
# The longest pause between two tries.
MAX_PAUSE_SECONDS = 900.0
MAX_REASON = 300


@dataclass(slots=True)
class NoticeEntry:
    """One notice, and what became of it."""

    due: NoticeDue
    at: int
    state: NoticeState = PENDING
    tries: int = 0
    reason: str = ""
    retry_at: int = 0
    holder: str = ""
    until: int = 0

    def is_free(self, holder: str, now: int) -> bool:
        """Whether this process may send it now."""
        return self.retry_at <= now and (self.holder in ("", holder) or self.until <= now)

    def wakes_at(self, holder: str) -> int:
        """The time from which on it may be sent by this process."""
        return max(self.retry_at, 0 if self.holder in ("", holder) else self.until)

    def listed(self) -> Notice:
        return Notice(due=self.due, state=self.state, tries=self.tries, reason=self.reason, at=self.at)


@dataclass(slots=True)
class NoticeHistory:
    """The notices of one run."""

    entries: dict[str, NoticeEntry] = field(default_factory=dict)
    # Notices that were sent and are not kept in whole any more.
    settled: set[str] = field(default_factory=set)
    numbered: int = 0

    def knows(self, notice_id: str) -> bool:
        return notice_id in self.entries or notice_id in self.settled

    def heads(self) -> list[NoticeEntry]:
        """The first pending notice of each target."""
        found: dict[str, NoticeEntry] = {}
        for entry in self.entries.values():
            if entry.state == PENDING:
                found.setdefault(entry.due.target, entry)
        return list(found.values())

    def pending(self, notice_id: str) -> NoticeEntry | None:
        entry = self.entries.get(notice_id)
        return entry if entry is not None and entry.state == PENDING else None

    def settle(self, notice_id: str) -> None:
        """Keep only the id of a notice that was sent."""
        self.settled.add(notice_id)
        del self.entries[notice_id]

    def apply(self, fact: Fact) -> None:
        """Fold one fact in place. A retry concerns dead notices only."""
        match fact.WhichOneof("kind"):
            case "notice_due":
                due = fact.notice_due
                self.numbered = max(self.numbered, due.number)
                if not self.knows(due.id):
                    self.entries[due.id] = NoticeEntry(due, fact.at)
            case "notice_claimed":
                claimed = fact.notice_claimed
                if entry := self.pending(claimed.id):
                    entry.holder, entry.until = claimed.holder, claimed.ends_at
            case "notice_sent":
                if entry := self.pending(fact.notice_sent.id):
                    entry.state, entry.tries, entry.at = SENT, fact.notice_sent.tries, fact.at
            case "notice_failed":
                self._failed(fact.notice_failed, fact.at)
            case "notice_retry_requested":
                entry = self.entries.get(fact.notice_retry_requested.id)
                if entry is not None and entry.state == DEAD:
                    entry.state, entry.tries, entry.retry_at, entry.at = PENDING, 0, fact.at, fact.at

    def _failed(self, failed: NoticeFailed, at: int) -> None:
        if entry := self.pending(failed.id):
            entry.tries, entry.reason, entry.at = failed.tries, failed.reason, at
            entry.retry_at, entry.holder, entry.until = failed.retry_at, "", 0
            entry.state = DEAD if failed.dead else PENDING


def become_due(history: NoticeHistory, notices: Iterable[NoticeDue], at: int) -> list[Fact]:
    """Those that are not on the log yet, numbered in order."""
    facts, number, seen = [], history.numbered, set()
    for due in notices:
        if history.knows(due.id) or due.id in seen:
            continue
        number += 1
        seen.add(due.id)
        fact = Fact(at=at, notice_due=due)
        fact.notice_due.number = number
        facts.append(fact)
    return facts


def claim(history: NoticeHistory, notice_id: str, holder: str, at: int, seconds: float) -> list[Fact]:
    """Claim the first pending notice of its target, unless another process holds it."""
    entry = history.pending(notice_id)
    if entry is None or not entry.is_free(holder, at):
        return []
    if all(head is not entry for head in history.heads()):
        return []
    until = at + int(seconds * MICROS)
    return [Fact(at=at, notice_claimed=NoticeClaimed(id=notice_id, holder=holder, ends_at=until))]


def sent(history: NoticeHistory, notice_id: str, at: int) -> list[Fact]:
    """The receiver has accepted it."""
    entry = history.pending(notice_id)
    if entry is None:
        return []
    return [Fact(at=at, notice_sent=NoticeSent(id=notice_id, tries=entry.tries + 1))]


def failed(
    history: NoticeHistory, notice_id: str, reason: str, at: int, *, max_tries: int, first_pause: float
) -> list[Fact]:
    """The receiver has not: it is sent again after a pause that doubles, or it is dead."""
    entry = history.pending(notice_id)
    if entry is None:
        return []
    tries = entry.tries + 1
    pause = min(first_pause * 2 ** min(tries - 1, 30), MAX_PAUSE_SECONDS)
    fact = NoticeFailed(id=notice_id, tries=tries, reason=reason[:MAX_REASON], dead=tries >= max_tries)
    if not fact.dead:
        fact.retry_at = at + int(pause * MICROS)
    return [Fact(at=at, notice_failed=fact)]
