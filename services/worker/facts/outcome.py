"""Stop reasons and outcomes of an attempt. Pure."""

from __future__ import annotations

import signal
from collections.abc import Awaitable
from dataclasses import dataclass

from runspine.domain.defaults import DEFAULT_GRACE_SECONDS
from runspine.domain.run import ENDED
from runspine.domain.run.attempts import apply_attempt, find_attempt
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    FINISHED,
    HANDED_BACK,
    LIMIT,
    LOST,
    STOPPED,
    AttemptExited,
    EngineStop,
    Fact,
    Outcome,
)
from runspine.wire.v1.run_pb2 import CANCELLED, CANCELLING, QUEUED, AttemptHistory, Run
from runspine.wire.v1.spec_pb2 import RunSpec

_CRASH = ": a crash in native code. Its log may show more with PYTHONFAULTHANDLER=1 under variables"
_SIGNAL_HINTS: dict[int, str] = {
    signal.SIGKILL: ": out of memory, or by hand",
    signal.SIGSEGV: _CRASH,
    signal.SIGABRT: _CRASH,
    signal.SIGBUS: _CRASH,
    signal.SIGILL: ": an instruction that this CPU does not know. Use a build of the package for it",
}
# A draining worker has little time.
MAX_DRAIN_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a trainer is being stopped."""

    outcome: Outcome
    reason: str
    grace: float = 0.0
    # A later attempt has superseded this one: it may record nothing more.
    fenced: bool = False
    # Why the engine ends the worker, once it has been asked.
    engine_stop: Awaitable[EngineStop] | None = None


def grace_of(spec: RunSpec) -> float:
    """Seconds between SIGTERM and SIGKILL."""
    return spec.limits.grace_seconds if spec.limits.HasField("grace_seconds") else DEFAULT_GRACE_SECONDS


def stop_for(run: Run, attempt: int) -> Stop | None:
    """Why the state of the run ends this attempt; None when it does not."""
    if run.attempt > attempt:
        return Stop(LOST, f"attempt {run.attempt} has taken over", fenced=True)
    if run.phase in (CANCELLING, CANCELLED):
        return Stop(STOPPED, f"cancelled: {run.reason}" if run.reason else "cancelled", grace_of(run.spec))
    if run.phase in ENDED:
        return Stop(STOPPED, "the run had ended already")
    return None


def limit_reached(seconds: float, grace: float) -> Stop:
    """Stop for the wall-clock limit."""
    return Stop(
        LIMIT,
        f"wall-clock limit of {seconds:g} s reached. Raise limits.wall_seconds, or plan fewer steps",
        grace,
    )


def episodes_reached(spec: RunSpec) -> Stop:
    """Stop for max_episodes: the run is completed."""
    return Stop(FINISHED, f"max_episodes reached: {spec.max_episodes:,}", grace_of(spec))


def hand_back(
    spec: RunSpec,
    longest: float = MAX_DRAIN_GRACE_SECONDS,
    engine_stop: Awaitable[EngineStop] | None = None,
) -> Stop:
    """Stop for a worker that drains; what follows for the run depends on why its engine ends the worker."""
    grace = min(grace_of(spec), longest)
    if engine_stop is not None and not spec.limits.HasField("grace_seconds"):
        grace = longest
    return Stop(HANDED_BACK, "the worker is shutting down", grace, engine_stop=engine_stop)


def is_waiting(run: Run, attempt: int) -> bool:
    """Whether this attempt of the run may be claimed."""
    return run.phase == QUEUED and run.attempt == attempt


def attempts_of(history: list[Fact]) -> AttemptHistory:
    """The attempts of a run, folded from the facts on attempts.<run_id>."""
    attempts = AttemptHistory()
    for fact in history:
        apply_attempt(attempts, fact)
    return attempts


def is_taken(history: list[Fact], attempt: int) -> bool:
    """Whether this attempt, or a later one, was started by any worker."""
    return any(started.number >= attempt for started in attempts_of(history).attempts)


def is_open(history: list[Fact], attempt: int, worker_id: str) -> bool:
    """Whether the attempt is the latest, is held by this worker and has no end on the log."""
    attempts = attempts_of(history)
    mine = find_attempt(attempts, attempt)
    if mine is None or mine.worker_id != worker_id or mine.HasField("exited"):
        return False
    return all(started.number <= attempt for started in attempts.attempts)


def exit_reason(exit_code: int, number: int, last_line: str) -> str:
    """One line that states how the trainer ended and, where known, what to do."""
    if number:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"killed by {name}{_SIGNAL_HINTS.get(number, '')}"
    if exit_code and last_line:
        hint = ". Install it in this runner's Python" if last_line.startswith("ModuleNotFoundError:") else ""
        return f"exit code {exit_code}: {last_line}{hint}"
    return f"exit code {exit_code}" + (", with nothing on stderr: see its log" if exit_code else "")


def exited_fact(
    attempt: int, worker_id: str, stop: Stop | None, exit_code: int, number: int, last_line: str
) -> AttemptExited:
    """AttemptExited without counts and stderr tail, which the caller adds."""
    return AttemptExited(
        attempt=attempt,
        worker_id=worker_id,
        outcome=stop.outcome if stop else EXITED,
        exit_code=exit_code,
        signal=number,
        reason=stop.reason if stop else exit_reason(exit_code, number, last_line),
    )
