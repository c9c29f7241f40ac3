"""Facts of a run checked by the rules of claim.pml: the log of a stack, or a trace of the simulator. Pure.

The two subjects of a run are on two streams, so only what one of them orders is taken as ordered.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from runspine.wire.v1.facts_pb2 import EXITED, FINISHED, AttemptExited, Commit, Fact

ENDINGS = ("run_completed", "run_failed", "run_cancelled")
# In which phases each fact of RUNS may come, and the phase after it.
RULES: Mapping[str, tuple[frozenset[str], str]] = {
    "run_submitted": (frozenset({""}), "SUBMITTED"),
    "run_queued": (frozenset({"SUBMITTED"}), "QUEUED"),
    "run_started": (frozenset({"QUEUED"}), "RUNNING"),
    "run_went_stale": (frozenset({"RUNNING"}), "STALE"),
    "run_came_back": (frozenset({"STALE"}), "RUNNING"),
    "run_requeued": (frozenset({"RUNNING", "STALE"}), "QUEUED"),
    "run_cancel_requested": (frozenset({"SUBMITTED", "QUEUED", "RUNNING", "STALE"}), "CANCELLING"),
    "run_completed": (frozenset({"RUNNING", "STALE", "CANCELLING"}), "ENDED"),
    "run_failed": (frozenset({"RUNNING", "STALE"}), "ENDED"),
    "run_cancelled": (frozenset({"CANCELLING"}), "ENDED"),
}


@dataclass(slots=True)
class Trace:
    """The facts of one run, in the order of each of its subjects."""

    runs: list[Fact] = field(default_factory=list)
    attempts: list[Fact] = field(default_factory=list)


def traces(log: Iterable[tuple[str, Commit]]) -> dict[str, Trace]:
    """Traces by run, from commits of RUNS and ATTEMPTS with their subjects."""
    found: dict[str, Trace] = {}
    for subject, commit in log:
        kind, _, run_id = subject.partition(".")
        if kind in ("runs", "attempts", "placements"):
            trace = found.setdefault(run_id, Trace())
            (trace.runs if kind == "runs" else trace.attempts).extend(commit.facts)
    return found


def problems(trace: Trace) -> Iterator[str]:
    """What the model does not allow."""
    started = yield from _claims(trace)
    exits = yield from _exits(trace, started)
    yield from _life(trace, started, exits)


def _claims(trace: Trace) -> Generator[str, None, dict[int, str]]:
    """AttemptStarted once for each attempt, in order, and only of attempts that were queued."""
    queued = {fact.run_queued.attempt for fact in trace.runs if fact.HasField("run_queued")}
    queued |= {fact.run_requeued.attempt for fact in trace.runs if fact.HasField("run_requeued")}
    started: dict[int, str] = {}
    for fact in trace.attempts:
        if not fact.HasField("attempt_started"):
            continue
        number = fact.attempt_started.attempt
        if number in started:
            yield f"attempt {number} was claimed twice"
        elif started and number < max(started):
            yield f"attempt {number} was claimed after attempt {max(started)}"
        if number not in queued:
            yield f"attempt {number} was claimed and never queued"
        started.setdefault(number, fact.attempt_started.worker_id)
    return started


def _exits(trace: Trace, started: Mapping[int, str]) -> Generator[str, None, dict[int, AttemptExited]]:
    """AttemptExited once for each attempt, by the worker that had claimed it."""
    exits: dict[int, AttemptExited] = {}
    for fact in trace.attempts:
        if not fact.HasField("attempt_exited"):
            continue
        exited = fact.attempt_exited
        if exited.attempt in exits:
            yield f"attempt {exited.attempt} ended twice"
        if started.get(exited.attempt) != exited.worker_id:
            yield f"attempt {exited.attempt} was ended by {exited.worker_id}, which had not claimed it"
        exits.setdefault(exited.attempt, exited)
    return exits


def _life(trace: Trace, started: Mapping[int, str], exits: Mapping[int, AttemptExited]) -> Iterator[str]:
    """Phases by the rules; an attempt that counts is the current one; decisions have their facts."""
    phase, attempt = "", 0
    # By the engine's word, where a worker recorded no exit itself.
    ended = {fact.placement_ended.attempt for fact in trace.attempts if fact.HasField("placement_ended")}
    for fact in trace.runs:
        kind = fact.WhichOneof("kind") or ""
        if kind not in RULES:
            continue
        before, after = RULES[kind]
        if phase not in before:
            yield f"{kind} in phase {phase or 'none'}"
        message = getattr(fact, kind)
        number = getattr(message, "attempt", attempt)
        if kind in ("run_queued", "run_requeued"):
            if number != attempt + 1:
                yield f"attempt {number} was queued after attempt {attempt}"
            yield from _reason(kind, fact, phase, attempt, started, exits, ended)
            attempt = number
        elif number != attempt:
            yield f"{kind} of attempt {number} while attempt {attempt} was current"
        else:
            yield from _reason(kind, fact, phase, attempt, started, exits, ended)
        phase = after


def _reason(
    kind: str,
    fact: Fact,
    phase: str,
    attempt: int,
    started: Mapping[int, str],
    exits: Mapping[int, AttemptExited],
    ended: Collection[int],
) -> Iterator[str]:
    """What a decision is based on is on the log."""
    exited = exits.get(attempt)
    match kind:
        case "run_started" if started.get(attempt) != fact.run_started.worker_id:
            yield f"attempt {attempt} started on {fact.run_started.worker_id}, which had not claimed it"
        case "run_completed" if exited is None or not _went_well(exited):
            yield f"completed without a clean exit of attempt {attempt}"
        case "run_requeued" | "run_failed" if exited is None and phase != "STALE" and attempt not in ended:
            yield f"attempt {attempt} was given up without an exit and without silence"


def _went_well(exited: AttemptExited) -> bool:
    return exited.outcome == FINISHED or (exited.outcome, exited.exit_code) == (EXITED, 0)
