"""What the service folds from the log: runs, notices, and which notices the facts give. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from runspine.domain.run.evolve import ENDED, apply
from runspine.eventlog import Recorded
from runspine.eventlog.subjects import ATTEMPTS, NOTICES, RUNS
from runspine.notice.book import NoticeBook
from runspine.notice.rules import METRIC_EVENTS, notice_id, targets
from runspine.services.notices.core.triggers import (
    BoundRule,
    Event,
    StackRule,
    events_of_attempt,
    events_of_run,
    notices_of,
    rules_of,
)
from runspine.wire.v1.facts_pb2 import NoticeDue
from runspine.wire.v1.run_pb2 import Quarantine, Run

# Ended runs that are kept, for facts of their attempts that arrive later.
KEPT_ENDED = 10_000


class NoticeProjection:
    """Runs with rules, their notices on the log, and notices that are not on the log yet."""

    name = "notices"
    schema = 1
    # NOTICES first: what was decided before is not decided again.
    streams: tuple[str, ...] = (NOTICES, RUNS, ATTEMPTS)

    def __init__(self, rules: tuple[StackRule, ...] = ()) -> None:
        self.rules = rules
        self.book = NoticeBook()
        self.runs: dict[str, Run] = {}
        self.ended: OrderedDict[str, Run] = OrderedDict()
        # Notices to be put on the log, by run and id.
        self.drafts: dict[str, dict[str, NoticeDue]] = {}
        # Facts of attempts of runs that are not known here: their run has to be read.
        self.unplaced: list[Recorded] = []

    def apply(self, recorded: Recorded) -> None:
        kind, _, run_id = recorded.subject.partition(".")
        if recorded.stream == NOTICES:
            self._apply_notices(recorded, run_id)
        elif kind == "runs":
            self._apply_run(recorded, run_id)
        elif kind == "attempts" and self._has_events(recorded):
            run = self.runs.get(run_id) or self.ended.get(run_id)
            if run is None:
                self.unplaced.append(recorded)
            else:
                self.apply_attempt(recorded, run)

    def apply_quarantine(self, quarantine: Quarantine) -> None:
        self.book.apply_quarantine(quarantine)

    def dump(self) -> bytes:
        """No snapshot: the log is quick to read."""
        return b""

    def load(self, state: bytes) -> None:
        raise AssertionError("no snapshots are made of this")

    def apply_attempt(self, recorded: Recorded, run: Run) -> None:
        """Draft the notices of a commit of ATTEMPTS."""
        for fact in recorded.commit.facts:
            for event in events_of_attempt(fact, recorded.stream, recorded.sequence):
                self.draft(run, event)

    def draft(self, run: Run, event: Event) -> None:
        for rule in rules_of(run, self.rules):
            if rule.applies_to(event):
                self._add(notices_of(run, event, rule))

    def draft_metric(self, run: Run, rule: BoundRule, at: int, detail: str) -> None:
        event = Event(rule.rule.on, metric_cause(rule), at, detail)
        self._add(notices_of(run, event, rule))

    def metric_rules(self, run: Run) -> Iterator[BoundRule]:
        """Rules on metrics of a run that have not held yet."""
        history = self.book.history(run.id)
        for rule in rules_of(run, self.rules):
            if rule.rule.on in METRIC_EVENTS and not _began_before(run, rule):
                ids = (notice_id(run.id, rule.name, metric_cause(rule), each) for each in targets(rule.rule))
                if not all(history.knows(each) or each in self.drafts.get(run.id, ()) for each in ids):
                    yield rule

    def _add(self, notices: list[NoticeDue]) -> None:
        for due in notices:
            if not self.book.history(due.run_id).knows(due.id):
                self.drafts.setdefault(due.run_id, {}).setdefault(due.id, due)

    def _apply_notices(self, recorded: Recorded, run_id: str) -> None:
        self.book.apply(recorded)
        drafts = self.drafts.get(run_id)
        if drafts is None:
            return
        for fact in recorded.commit.facts:
            drafts.pop(fact.notice_due.id, None)
        if not drafts:
            del self.drafts[run_id]

    def _apply_run(self, recorded: Recorded, run_id: str) -> None:
        run = self.runs.get(run_id) or self.ended.pop(run_id, None) or Run(id=run_id)
        run.position = recorded.sequence
        for index, fact in enumerate(recorded.commit.facts):
            apply(run, fact)
            for event in events_of_run(fact, recorded.stream, recorded.sequence, index):
                self.draft(run, event)
        if run.phase not in ENDED:
            self.runs[run_id] = run
            return
        self.runs.pop(run_id, None)
        self.ended[run_id] = run
        while len(self.ended) > KEPT_ENDED:
            self.ended.popitem(last=False)

    def _has_events(self, recorded: Recorded) -> bool:
        facts = recorded.commit.facts
        return any(
            True for fact in facts for _ in events_of_attempt(fact, recorded.stream, recorded.sequence)
        )


def metric_cause(rule: BoundRule) -> str:
    """A rule on a metric holds once in a run, until the rule is changed."""
    return f"metric:{rule.digest[:16]}"


def _began_before(run: Run, rule: BoundRule) -> bool:
    """Whether the run had ended before the rule was made."""
    return run.phase in ENDED and bool(rule.after) and run.position <= rule.after.get(RUNS, 0)
