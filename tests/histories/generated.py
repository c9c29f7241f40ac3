"""Histories that are right by construction: calls on runs whose true order is known. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.histories.calls import Call, Operation, Seen
from tests.histories.run_model import ENDED, INNER, UNDERWAY, WAITING, RunState, labelled

SESSIONS = 4
UNANSWERED = 0.05


@dataclass
class TrueRun:
    """A run with everything that was true of it, and how far each session has seen it."""

    run_id: str
    states: list[RunState] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)

    @property
    def now(self) -> RunState:
        return self.states[-1]

    def seen(self, state: RunState) -> dict[str, Seen]:
        return {self.run_id: Seen(state.phase, state.attempt, state.priority, dict(state.labels))}


def history(seed: int, runs: int, calls_each: int, *, lagging: bool = False) -> list[Call]:
    """Each call takes effect between its start and its end; a lagging read shows an earlier state."""
    chance = random.Random(seed)
    found: list[Call] = []
    for number in range(runs):
        found += _of_run(chance, TrueRun(f"run-{seed}-{number}"), calls_each, lagging, number * 0.01)
    return found


def _of_run(chance: random.Random, run: TrueRun, calls: int, lagging: bool, at: float) -> list[Call]:
    run.states.append(RunState("QUEUED", 1, 50, frozenset()))
    found = [
        Call(
            "s0",
            "submit",
            at,
            at + 0.5,
            "ok",
            key=f"key of {run.run_id}",
            seen=run.seen(run.now),
            created=True,
        )
    ]
    free = dict.fromkeys((f"s{number}" for number in range(SESSIONS)), at + 0.6)
    moment = at + 0.6
    for _ in range(calls - 1):
        session = chance.choice(list(free))
        moment = max(moment + chance.random() * 0.2, free[session] + 0.01)
        if chance.random() < 0.3:
            _move_on(chance, run)
        start = max(free[session] + 0.001, moment - chance.random())
        end = moment + chance.random()
        call = _call(chance, run, session, start, end, lagging)
        if call is not None:
            found.append(call)
            free[session] = end
    return found


def _move_on(chance: random.Random, run: TrueRun) -> None:
    """What workers and orchestrators do."""
    now = run.now
    nexts = [replace(now, phase=phase) for phase in sorted(INNER[now.phase])]
    if now.phase in UNDERWAY:
        nexts.append(replace(now, phase="QUEUED", attempt=now.attempt + 1))
    if nexts:
        run.states.append(chance.choice(nexts))


def _call(
    chance: random.Random, run: TrueRun, session: str, start: float, end: float, lagging: bool
) -> Call | None:
    operation: Operation = chance.choice(["get", "get", "get", "list", "labels", "priority", "cancel"])
    if operation in ("get", "list"):
        first = run.known.get(session, 0) if lagging else len(run.states) - 1
        at = chance.randint(first, len(run.states) - 1)
        run.known[session] = at
        return Call(session, operation, start, end, "ok", run.run_id, seen=run.seen(run.states[at]))
    if operation == "cancel" and chance.random() > 0.02:
        return None
    given: dict[str, object] = {}
    after: RunState | None = None
    now = run.now
    match operation:
        case "labels":
            given = {"labels": {chance.choice("ab"): chance.choice(["", "x", "y"])}}
            after = labelled(now, given["labels"])  # type: ignore[arg-type]
        case "priority":
            given = {"priority": chance.randint(0, 3)}
            after = None if now.phase in ENDED else replace(now, priority=given["priority"])  # type: ignore[arg-type]
        case "cancel":
            after = _cancelled(now)
    if after is None:
        run.known[session] = len(run.states) - 1
        return Call(session, operation, start, end, "refused", run.run_id, given=given)
    unanswered = chance.random() < UNANSWERED
    if not unanswered or chance.random() < 0.5:
        run.states.append(after)
    run.known[session] = run.known.get(session, 0) if unanswered else len(run.states) - 1
    if unanswered:
        return Call(session, operation, start, end, "unknown", run.run_id, given=given)
    return Call(session, operation, start, end, "ok", run.run_id, given=given, seen=run.seen(after))


def _cancelled(now: RunState) -> RunState | None:
    if now.phase in ("CANCELLED", "CANCELLING"):
        return now
    if now.phase in ENDED:
        return None
    return replace(now, phase="CANCELLED" if now.phase in WAITING else "CANCELLING")
