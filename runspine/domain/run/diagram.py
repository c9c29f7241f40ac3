"""Transitions between the phases of a run, found by trying every command in every phase."""

from __future__ import annotations

from runspine.domain.run.commands import (
    Cancel,
    ComeBack,
    Command,
    GiveUp,
    GoStale,
    RecordExit,
    RecordPlacementEnd,
    RecordStart,
    Submit,
)
from runspine.domain.run.decide import RunRefusedError, decide
from runspine.domain.run.evolve import fold
from runspine.wire.v1.facts_pb2 import (
    CANCELLED_BY_OPERATOR,
    EXITED,
    LOST,
    STOPPED,
    TIME_LIMIT,
    AttemptExited,
    EngineStop,
    Outcome,
)
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import Retry, RunSpec

_SPEC = RunSpec(runner="script", retry=Retry(max_attempts=2))


def _commands(attempt: int) -> list[Command]:
    def exit_with(outcome: Outcome, code: int = 0) -> RecordExit:
        exited = AttemptExited(attempt=attempt, worker_id="w", outcome=outcome, exit_code=code)
        return RecordExit(0, exited, ended_at=0)

    return [
        Submit(0, "r", "n", _SPEC),
        RecordStart(0, attempt, "w"),
        Cancel(0),
        GoStale(0, attempt, 0),
        ComeBack(0, attempt),
        GiveUp(0, attempt, "silent"),
        exit_with(EXITED),
        exit_with(EXITED, 1),
        exit_with(STOPPED, 143),
        exit_with(LOST),
        RecordPlacementEnd(0, attempt, EngineStop(cause=CANCELLED_BY_OPERATOR)),
        RecordPlacementEnd(0, attempt, EngineStop(cause=TIME_LIMIT)),
    ]


def transitions() -> list[tuple[str, str, str]]:
    """Every (phase, fact, next phase) that the rules allow."""
    seen: set[tuple[int, int, int]] = set()
    found: dict[tuple[str, str, str], None] = {}
    unexplored = [Run()]
    while unexplored:
        run = unexplored.pop(0)
        state = (run.phase, run.failures, run.losses)
        if state in seen or run.losses > 1:
            continue
        seen.add(state)
        for command in _commands(run.attempt):
            try:
                facts = decide(run, command)
            except RunRefusedError:
                continue
            after = run
            for fact in facts:
                before, after = after, fold([fact], after)
                kind = (fact.WhichOneof("kind") or "").title().replace("_", "")
                found[_name(before.phase), kind, _name(after.phase)] = None
            unexplored.append(after)
    return list(found)


def _name(phase: int) -> str:
    return "[*]" if phase == 0 else Phase.Name(phase)
