"""From facts to events, and from events to notices by the rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from runspine.notice.rules import LABEL, notice_id, rule_digest, rule_name, targets
from runspine.services.notices.core.message import compose
from runspine.wire.v1.facts_pb2 import LIMIT, Fact, NoticeDue
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import NoticeRule

ENDS = {"run_completed": "completed", "run_failed": "failed", "run_cancelled": "cancelled"}


class Condition(BaseModel):
    """Runs that a rule of the operator is about; empty fields match every run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: str = ""
    env: str = ""
    algo: str = ""
    runner: str = ""
    labels: dict[str, str] = {}

    def holds(self, run: Run) -> bool:
        spec = run.spec
        wanted = (
            (self.project, spec.project),
            (self.env, spec.env),
            (self.algo, spec.algo),
            (self.runner, spec.runner),
        )
        return all(not given or given == found for given, found in wanted) and all(
            run.labels.get(key) == value for key, value in self.labels.items()
        )


@dataclass(frozen=True)
class StackRule:
    """A rule of the operator, and the last positions that it does not apply to, by stream."""

    name: str
    rule: NoticeRule
    where: Condition = field(default_factory=Condition)
    after: Mapping[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return rule_digest(self.rule, self.where.model_dump_json())


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a rule may be about. `cause` is equal for equal events."""

    kind: str
    cause: str
    at: int
    detail: str = ""
    # Where the fact is; 0 for an event that no fact states.
    stream: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule that is about a run."""

    name: str
    rule: NoticeRule
    after: Mapping[str, int]
    digest: str

    def applies_to(self, event: Event) -> bool:
        if event.stream and event.position <= self.after.get(event.stream, 0):
            return False
        return self.rule.on == event.kind


def rules_of(run: Run, stack: tuple[StackRule, ...]) -> Iterator[BoundRule]:
    """The operator's rules that match a run, and its own."""
    for one in stack:
        if one.where.holds(run):
            yield BoundRule(f"stack/{one.name}", one.rule, one.after, one.digest)
    for index, rule in enumerate(run.spec.notify):
        yield BoundRule(f"run/{rule_name(rule, index)}", rule, {}, rule_digest(rule))


def events_of_run(fact: Fact, stream: str, position: int, index: int) -> Iterator[Event]:
    """Events of a fact of RUNS."""
    kind = fact.WhichOneof("kind") or ""
    cause = f"{stream}:{position}:{index}"

    def event(name: str, detail: str = "") -> Event:
        return Event(name, cause, fact.at, detail, stream, position)

    if kind in ENDS:
        ended = getattr(fact, kind)
        yield event(ENDS[kind], ended.reason)
        yield event("ended", f"{ENDS[kind]}{': ' if ended.reason else ''}{ended.reason}")
    elif kind == "run_started":
        yield event("started", f"attempt {fact.run_started.attempt} on {fact.run_started.worker_id}")
    elif kind == "run_requeued":
        yield event("retried", fact.run_requeued.reason)
    elif kind == "run_went_stale":
        yield event("stale", "no heartbeat of its worker arrives")


def events_of_attempt(fact: Fact, stream: str, position: int) -> Iterator[Event]:
    """Events of a fact of ATTEMPTS. An attempt has each of them once."""
    kind = fact.WhichOneof("kind")
    if kind == "attempt_progressed":
        attempt, counts = fact.attempt_progressed.attempt, fact.attempt_progressed.progress.counts
        if fact.attempt_progressed.progress.stalled_since:
            detail = "no output, no telemetry and no CPU time; the stacks of its processes are in its log"
            yield Event("stalled", f"stalled:{attempt}", fact.at, detail, stream, position)
    elif kind == "attempt_exited":
        attempt, counts = fact.attempt_exited.attempt, fact.attempt_exited.counts
        if fact.attempt_exited.outcome == LIMIT:
            yield from _limit_events(fact, stream, position)
    else:
        return
    if counts.not_finite:
        detail = f"{counts.not_finite:,} NaN or infinite value{'s' if counts.not_finite > 1 else ''}"
        yield Event("nan", f"nan:{attempt}", fact.at, detail, stream, position)


def _limit_events(fact: Fact, stream: str, position: int) -> Iterator[Event]:
    exited = fact.attempt_exited
    for kind, limit in (("stalled", "limits.stall_seconds"), ("disk", "limits.disk_mib")):
        if limit in exited.reason:
            yield Event(kind, f"{kind}:{exited.attempt}", fact.at, exited.reason, stream, position)


def notices_of(run: Run, event: Event, rule: BoundRule) -> list[NoticeDue]:
    """The notices that this event gives by this rule, one for each target."""
    title, text = compose(run, event.kind, event.detail, rule.name)
    return [
        NoticeDue(
            id=notice_id(run.id, rule.name, event.cause, target),
            run_id=run.id,
            run_name=run.name,
            rule=rule.name,
            event=event.kind,
            target=target,
            caused_at=event.at,
            title=title,
            text=text,
            labels=rule.rule.labels if target == LABEL else None,
        )
        for target in targets(rule.rule)
    ]
