"""A run as its clients see it, one call after the other: the sequential model. Pure.

Workers and orchestrators move a run on between calls, so a reply may show any phase that can be reached from
the one before; clients alone change priority and labels and ask for a cancel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from runspine.domain.defaults import DEFAULT_PRIORITY
from tests.histories.calls import Call, Seen

# What happens to a run without a client, within one attempt. A requeue of RUNNING or STALE starts the next.
INNER: Mapping[str, frozenset[str]] = {
    "SUBMITTED": frozenset({"QUEUED"}),
    "QUEUED": frozenset({"RUNNING"}),
    "RUNNING": frozenset({"STALE", "COMPLETED", "FAILED"}),
    "STALE": frozenset({"RUNNING", "COMPLETED", "FAILED"}),
    "CANCELLING": frozenset({"CANCELLED", "COMPLETED"}),
    "COMPLETED": frozenset(),
    "FAILED": frozenset(),
    "CANCELLED": frozenset(),
}
WAITING = frozenset({"SUBMITTED", "QUEUED"})
UNDERWAY = frozenset({"RUNNING", "STALE"})
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
# Phases of a later attempt that nobody has asked to cancel.
LATER = frozenset({"QUEUED", "RUNNING", "STALE", "COMPLETED", "FAILED"})


def _closure(phase: str) -> frozenset[str]:
    found, unexplored = {phase}, [phase]
    while unexplored:
        more = INNER[unexplored.pop()] - found
        found |= more
        unexplored += more
    return frozenset(found)


REACHED = {phase: _closure(phase) for phase in INNER}
REQUEUED_FROM = frozenset(phase for phase, reached in REACHED.items() if reached & UNDERWAY)


@dataclass(frozen=True, slots=True)
class RunState:
    """`attempt` is a lower bound where a cancel without a reply hid the number (`loose`)."""

    phase: str
    attempt: int
    priority: int
    labels: frozenset[tuple[str, str]]
    loose: bool = False


def reaches(state: RunState, phase: str, attempt: int) -> bool:
    """Whether the run can come into this phase of this attempt without a client."""
    if phase in REACHED[state.phase] and (
        attempt == state.attempt or (state.loose and attempt > state.attempt)
    ):
        return True
    return attempt > state.attempt and state.phase in REQUEUED_FROM and phase in LATER


def step(state: RunState | None, call: Call, run_id: str) -> Iterator[RunState | None]:
    """The states after the call; nothing when it cannot have had this outcome now. None: there is no run."""
    seen = call.seen.get(run_id)
    if state is None:
        yield from _without_run(call, seen)
    elif call.outcome == "unknown":
        yield from _unanswered(state, call)
    elif call.outcome == "refused":
        yield from _refused(state, call)
    elif seen is not None:
        yield from _answered(state, call, seen)


def _without_run(call: Call, seen: Seen | None) -> Iterator[RunState | None]:
    if call.outcome == "missing":
        yield None
    elif call.operation == "submit":
        given = call.given
        made = RunState(
            "QUEUED", 1, given.get("priority", DEFAULT_PRIORITY), _frozen(given.get("labels", {}))
        )
        if call.outcome == "unknown":
            yield made
        elif seen is not None and call.created:
            yield from _shown(made, seen)


def _answered(state: RunState, call: Call, seen: Seen) -> Iterator[RunState]:
    match call.operation:
        case "submit" if call.created:
            return
        case "cancel":
            yield from _cancelled(state, seen)
        case "priority" if state.phase in ENDED:
            return
        case "priority":
            yield from _shown(replace(state, priority=call.given["priority"]), seen)
        case "labels":
            yield from _shown(labelled(state, call.given["labels"]), seen)
        case _:
            yield from _shown(state, seen)


def _shown(state: RunState, seen: Seen) -> Iterator[RunState]:
    """The run, if it can be what was shown."""
    if (state.priority, state.labels) == (seen.priority, _frozen(seen.labels)) and reaches(
        state, seen.phase, seen.attempt
    ):
        yield replace(state, phase=seen.phase, attempt=seen.attempt, loose=False)


def _cancelled(state: RunState, seen: Seen) -> Iterator[RunState]:
    """A run that waits is CANCELLED at once, one under way CANCELLING first; again changes nothing."""
    if state.phase in ("CANCELLING", "CANCELLED"):
        if seen.phase in ("CANCELLING", "CANCELLED"):
            yield from _shown(state, seen)
        return
    before = {"CANCELLED": WAITING, "CANCELLING": UNDERWAY}.get(seen.phase, frozenset())
    if any(reaches(state, phase, seen.attempt) for phase in before):
        after = replace(state, phase=seen.phase, attempt=seen.attempt, loose=False)
        yield from _shown(after, seen)


def _refused(state: RunState, call: Call) -> Iterator[RunState]:
    """A run that has ended cannot be cancelled or moved in the queue; to cancel it twice is no error."""
    endings = {"cancel": ENDED - {"CANCELLED"}, "priority": ENDED}.get(call.operation, frozenset())
    for phase in sorted(endings):
        if phase in REACHED[state.phase]:
            yield replace(state, phase=phase)
        if state.phase in REQUEUED_FROM and phase in LATER:
            yield replace(
                state, phase=phase, attempt=state.attempt + (phase not in REACHED[state.phase]), loose=True
            )


def _unanswered(state: RunState, call: Call) -> Iterator[RunState]:
    """What a write without a reply may have done; that it did nothing is not one of these."""
    match call.operation:
        case "cancel" if state.phase in WAITING | UNDERWAY:
            yield replace(state, phase="CANCELLED", loose=True)
            yield replace(state, phase="CANCELLING", loose=True)
        case "priority" if state.phase not in ENDED:
            yield replace(state, priority=call.given["priority"])
        case "labels":
            yield labelled(state, call.given["labels"])


def labelled(state: RunState, changes: Mapping[str, str]) -> RunState:
    """An empty value removes a label."""
    merged = {**dict(state.labels), **changes}
    return replace(state, labels=_frozen({name: value for name, value in merged.items() if value}))


def _frozen(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())
