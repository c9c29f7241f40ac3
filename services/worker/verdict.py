"""When a trainer must stop, and what its end is called. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from runspine.run import ENDED
from runspine.run.attempts import apply_attempt, find_attempt
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    HANDED_BACK,
    LIMIT,
    LOST,
    STOPPED,
    AttemptExited,
    Fact,
    Outcome,
)
from runspine.wire.v1.run_pb2 import CANCELLED, CANCELLING, QUEUED, AttemptHistory, Run
from runspine.wire.v1.spec_pb2 import RunSpec

DEFAULT_GRACE = 3.0
_CRASH = ": a crash in native code. Its log may say more with PYTHONFAULTHANDLER=1 under variables"
_SIGNAL_HINTS: dict[int, str] = {
    signal.SIGKILL: ": out of memory, or by hand",
    signal.SIGSEGV: _CRASH,
    signal.SIGABRT: _CRASH,
    signal.SIGBUS: _CRASH,
    signal.SIGILL: ": an instruction that this CPU does not know. Use a build of the package for it",
}
# A draining worker has little time of its own.
LONGEST_DRAIN_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a trainer is being stopped."""

    outcome: Outcome
    reason: str
    grace: float = 0.0
    # A later attempt has taken over: nothing more may be said for this one.
    fenced: bool = False


def grace_of(spec: RunSpec) -> float:
    return spec.limits.grace_seconds if spec.limits.HasField("grace_seconds") else DEFAULT_GRACE


def stop_for(run: Run, attempt: int) -> Stop | None:
    """Whether what was decided on the run ends this attempt."""
    if run.attempt > attempt:
        return Stop(LOST, f"attempt {run.attempt} has taken over", fenced=True)
    if run.phase in (CANCELLING, CANCELLED):
        return Stop(STOPPED, f"cancelled: {run.reason}" if run.reason else "cancelled", grace_of(run.spec))
    if run.phase in ENDED:
        return Stop(STOPPED, "the run had ended already")
    return None


def limit_reached(seconds: float, grace: float) -> Stop:
    return Stop(
        LIMIT,
        f"wall-clock limit of {seconds:g} s reached. Raise limits.wall_seconds, or plan fewer steps",
        grace,
    )


def handed_back(spec: RunSpec) -> Stop:
    return Stop(HANDED_BACK, "the worker is shutting down", min(grace_of(spec), LONGEST_DRAIN_GRACE))


def is_waiting(run: Run, attempt: int) -> bool:
    return run.phase == QUEUED and run.attempt == attempt


def attempts_of(history: list[Fact]) -> AttemptHistory:
    attempts = AttemptHistory()
    for fact in history:
        apply_attempt(attempts, fact)
    return attempts


def is_taken(history: list[Fact], attempt: int) -> bool:
    """Whether this attempt, or a later one, was begun by anybody."""
    return any(begun.number >= attempt for begun in attempts_of(history).attempts)


def is_open(history: list[Fact], attempt: int, worker_id: str) -> bool:
    """Whether this worker's word on the attempt still counts and its end is not told yet."""
    attempts = attempts_of(history)
    mine = find_attempt(attempts, attempt)
    if mine is None or mine.worker_id != worker_id or mine.HasField("exited"):
        return False
    return all(begun.number <= attempt for begun in attempts.attempts)


def exit_reason(exit_code: int, number: int, last_word: str) -> str:
    """One line a person can act on."""
    if number:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"killed by {name}{_SIGNAL_HINTS.get(number, '')}"
    if exit_code and last_word:
        hint = ". Install it in this runner's Python" if last_word.startswith("ModuleNotFoundError:") else ""
        return f"exit code {exit_code}: {last_word}{hint}"
    return f"exit code {exit_code}" + (", with nothing on stderr: see its log" if exit_code else "")


def ended(
    attempt: int, worker_id: str, stop: Stop | None, exit_code: int, number: int, last_word: str
) -> AttemptExited:
    """The fact of an end, tail and counts left for the caller."""
    return AttemptExited(
        attempt=attempt,
        worker_id=worker_id,
        outcome=stop.outcome if stop else EXITED,
        exit_code=exit_code,
        signal=number,
        reason=stop.reason if stop else exit_reason(exit_code, number, last_word),
    )
