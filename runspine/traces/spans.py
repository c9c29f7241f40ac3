"""Spans of a run that has ended, from its facts. Pure: the same facts give the same spans and ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from runspine.wire.v1.facts_pb2 import EXITED, Fact
from runspine.wire.v1.spec_pb2 import RunSpec

Attribute = str | int | float | bool

# Named on the span in whose time they fall.
EVENTS = ("run_went_stale", "run_came_back", "run_cancel_requested", "artifact_produced", "artifact_given_up")


@dataclass(slots=True)
class Event:
    name: str
    at: int
    attributes: dict[str, Attribute] = field(default_factory=dict)


@dataclass(slots=True)
class Span:
    """Times are microseconds; an empty parent is the root's."""

    name: str
    key: str
    parent: str
    began: int
    ended: int = 0
    # None while nothing is known; then the reason, empty when it went well.
    flaw: str | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


def trace_id(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:32]


def span_id(run_id: str, key: str) -> str:
    return hashlib.sha256(f"{run_id}/{key}".encode()).hexdigest()[:16]


def spans_of(run_id: str, facts: Iterable[Fact]) -> list[Span]:
    """The run, each wait and each attempt in it, and each file's way into the registry."""
    fold = _Fold(run_id)
    for fact in sorted(facts, key=lambda fact: fact.at):
        fold.apply(fact)
    return fold.close()


class _Fold:
    def __init__(self, run_id: str) -> None:
        self.root = Span("run", "run", "", 0, attributes={"runspine.run_id": run_id})
        self.waits: dict[int, Span] = {}
        self.attempts: dict[int, Span] = {}
        self.files: list[Span] = []
        self.last = 0

    def apply(self, fact: Fact) -> None:
        kind = fact.WhichOneof("kind") or ""
        if kind in EVENTS:
            self._event(kind, fact)
        elif apply := getattr(self, f"_{kind}", None):
            apply(fact)
        if not kind.startswith("artifact_"):
            self.last = max(self.last, fact.at)

    def close(self) -> list[Span]:
        self.root.ended = self.root.ended or self.last
        for span in (*self.waits.values(), *self.attempts.values()):
            span.ended = span.ended or self.root.ended
        return [self.root, *self.waits.values(), *self.attempts.values(), *self.files]

    def _run_submitted(self, fact: Fact) -> None:
        said = fact.run_submitted
        self.root.began = fact.at
        self.root.name = f"run {said.name}"
        self.root.attributes |= {"runspine.name": said.name, **_spec(said.spec)}

    def _run_queued(self, fact: Fact) -> None:
        self._wait(fact.run_queued.attempt, fact.at)

    def _run_requeued(self, fact: Fact) -> None:
        said = fact.run_requeued
        before = self.attempts.get(said.attempt - 1)
        if before is not None and not before.ended:
            before.ended, before.flaw = fact.at, said.reason or "lost"
        self._wait(said.attempt, fact.at)

    def _wait(self, attempt: int, at: int) -> None:
        key = f"queued/{attempt}"
        self.waits.setdefault(
            attempt, Span("queued", key, "run", at, attributes={"runspine.attempt": attempt})
        )

    def _attempt_started(self, fact: Fact) -> None:
        said = fact.attempt_started
        if wait := self.waits.get(said.attempt):
            wait.ended, wait.flaw = fact.at, ""
        attributes: dict[str, Attribute] = {
            "runspine.attempt": said.attempt,
            "runspine.worker_id": said.worker_id,
            "host.name": said.host,
        }
        if said.HasField("resumed_from"):
            attributes["runspine.resumed_from_step"] = said.resumed_from.step
        key = f"attempt/{said.attempt}"
        self.attempts[said.attempt] = Span(
            f"attempt {said.attempt}", key, "run", fact.at, attributes=attributes
        )

    def _attempt_exited(self, fact: Fact) -> None:
        said = fact.attempt_exited
        if span := self.attempts.get(said.attempt):
            span.ended = fact.at
            well = said.outcome == EXITED and said.exit_code == 0
            span.flaw = "" if well else said.reason or f"exit code {said.exit_code}"
            span.attributes |= {"process.exit.code": said.exit_code, "runspine.steps": said.counts.steps}

    def _run_completed(self, fact: Fact) -> None:
        self._end(fact.at, "")

    def _run_failed(self, fact: Fact) -> None:
        self._end(fact.at, fact.run_failed.reason or "failed")

    def _run_cancelled(self, fact: Fact) -> None:
        self._end(fact.at, f"cancelled: {fact.run_cancelled.reason}".removesuffix(": "))

    def _end(self, at: int, flaw: str) -> None:
        self.root.ended, self.root.flaw = at, flaw

    def _artifact_indexed(self, fact: Fact) -> None:
        said = fact.artifact_indexed
        made = said.artifact
        attributes: dict[str, Attribute] = {"runspine.kind": made.kind, "runspine.bytes": made.size}
        parent = f"attempt/{made.attempt}" if made.attempt in self.attempts else "run"
        key = f"file/{made.attempt}/{made.name}/{made.digest}"
        began = min(said.produced_at or fact.at, fact.at)
        self.files.append(Span(f"verify {made.name}", key, parent, began, fact.at, "", attributes))

    def _event(self, kind: str, fact: Fact) -> None:
        said = getattr(fact, kind)
        span = self.attempts.get(getattr(said, "attempt", 0), self.root)
        names = [name for name in ("kind", "name", "reason", "requested_by") if getattr(said, name, "")]
        span.events.append(
            Event(kind.replace("_", " "), fact.at, {name: getattr(said, name) for name in names})
        )


def _spec(spec: RunSpec) -> dict[str, Attribute]:
    told: dict[str, Attribute] = {
        "runspine.env": spec.env,
        "runspine.algo": spec.algo,
        "runspine.runner": spec.runner,
        "runspine.pool": spec.pool,
        "runspine.project": spec.project,
    }
    if spec.HasField("seed"):
        told["runspine.seed"] = spec.seed
    return {name: value for name, value in told.items() if value != ""}
