"""Spans of a run that has ended, from its facts. Pure: the same facts give the same spans and ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from runspine.wire.v1.facts_pb2 import EXITED, FINISHED, Fact
from runspine.wire.v1.spec_pb2 import RunSpec

Attribute = str | int | float | bool

# Facts that become events of a span.
EVENTS = ("run_went_stale", "run_came_back", "run_cancel_requested", "artifact_produced", "artifact_given_up")


@dataclass(slots=True)
class SpanEvent:
    name: str
    at: int
    attributes: dict[str, Attribute] = field(default_factory=dict)


@dataclass(slots=True)
class Span:
    """Times are in microseconds; the root has an empty parent."""

    name: str
    key: str
    parent: str
    began: int
    ended: int = 0
    # None while it is not known; then the error, empty for success.
    error: str | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)


def trace_id(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:32]


def span_id(run_id: str, key: str) -> str:
    return hashlib.sha256(f"{run_id}/{key}".encode()).hexdigest()[:16]


def spans_of(run_id: str, facts: Iterable[Fact]) -> list[Span]:
    """Spans of the run, of each wait and attempt, and of the verification of each file."""
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
        submitted = fact.run_submitted
        self.root.began = fact.at
        self.root.name = f"run {submitted.name}"
        self.root.attributes |= {"runspine.name": submitted.name, **_spec(submitted.spec)}

    def _run_queued(self, fact: Fact) -> None:
        self._wait(fact.run_queued.attempt, fact.at)

    def _run_requeued(self, fact: Fact) -> None:
        requeued = fact.run_requeued
        before = self.attempts.get(requeued.attempt - 1)
        if before is not None and not before.ended:
            before.ended, before.error = fact.at, requeued.reason or "lost"
        self._wait(requeued.attempt, fact.at)

    def _wait(self, attempt: int, at: int) -> None:
        key = f"queued/{attempt}"
        self.waits.setdefault(
            attempt, Span("queued", key, "run", at, attributes={"runspine.attempt": attempt})
        )

    def _attempt_started(self, fact: Fact) -> None:
        started = fact.attempt_started
        if wait := self.waits.get(started.attempt):
            wait.ended, wait.error = fact.at, ""
        attributes: dict[str, Attribute] = {
            "runspine.attempt": started.attempt,
            "runspine.worker_id": started.worker_id,
            "host.name": started.host,
        }
        if started.HasField("resumed_from"):
            attributes["runspine.resumed_from_step"] = started.resumed_from.step
        key = f"attempt/{started.attempt}"
        self.attempts[started.attempt] = Span(
            f"attempt {started.attempt}", key, "run", fact.at, attributes=attributes
        )

    def _attempt_exited(self, fact: Fact) -> None:
        exited = fact.attempt_exited
        if span := self.attempts.get(exited.attempt):
            span.ended = fact.at
            clean = exited.outcome == EXITED and exited.exit_code == 0
            well = clean or exited.outcome == FINISHED
            span.error = "" if well else exited.reason or f"exit code {exited.exit_code}"
            span.attributes |= {"process.exit.code": exited.exit_code, "runspine.steps": exited.counts.steps}

    def _run_completed(self, fact: Fact) -> None:
        self._end(fact.at, "")

    def _run_failed(self, fact: Fact) -> None:
        self._end(fact.at, fact.run_failed.reason or "failed")

    def _run_cancelled(self, fact: Fact) -> None:
        self._end(fact.at, f"cancelled: {fact.run_cancelled.reason}".removesuffix(": "))

    def _end(self, at: int, error: str) -> None:
        self.root.ended, self.root.error = at, error

    def _artifact_indexed(self, fact: Fact) -> None:
        indexed = fact.artifact_indexed
        made = indexed.artifact
        attributes: dict[str, Attribute] = {"runspine.kind": made.kind, "runspine.bytes": made.size}
        parent = f"attempt/{made.attempt}" if made.attempt in self.attempts else "run"
        key = f"file/{made.attempt}/{made.name}/{made.digest}"
        began = min(indexed.produced_at or fact.at, fact.at)
        self.files.append(Span(f"verify {made.name}", key, parent, began, fact.at, "", attributes))

    def _event(self, kind: str, fact: Fact) -> None:
        body = getattr(fact, kind)
        span = self.attempts.get(getattr(body, "attempt", 0), self.root)
        names = [name for name in ("kind", "name", "reason", "requested_by") if getattr(body, name, "")]
        span.events.append(
            SpanEvent(kind.replace("_", " "), fact.at, {name: getattr(body, name) for name in names})
        )


def _spec(spec: RunSpec) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {
        "runspine.env": spec.env,
        "runspine.algo": spec.algo,
        "runspine.runner": spec.runner,
        "runspine.pool": spec.pool,
        "runspine.project": spec.project,
    }
    if spec.HasField("seed"):
        attributes["runspine.seed"] = spec.seed
    return {name: value for name, value in attributes.items() if value != ""}
