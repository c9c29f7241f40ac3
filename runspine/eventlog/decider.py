"""Command handling: read, fold, decide, append; repeated when another writer was first."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from runspine.eventlog import ConflictError, EventLog, UnknownOutcomeError, Version
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact

State = TypeVar("State")

# After a conflict the pause is this times the number of earlier conflicts, which counts up to the maximum.
CONFLICT_SECONDS = 0.005
MAX_CONFLICT_PAUSES = 4


@dataclass(frozen=True, slots=True)
class Handled(Generic[State]):
    """The result of a command: the new state, the facts stored, and their position."""

    state: State
    facts: list[Fact]
    position: int

    @property
    def run(self) -> State:
        """The state, where it is a run's."""
        return self.state


async def handle(
    log: EventLog,
    subject: str,
    decide: Callable[[State], list[Fact]],
    fold: Callable[[Iterable[Fact], State | None], State],
    *,
    tries: int | None = 5,
    fence: Callable[[], int] | None = None,
) -> Handled[State]:
    """Decide on the newest history and store the outcome, or raise ConflictError after `tries`.

    With `tries=None` it is repeated until there is no conflict. `fence` returns the position at which the
    whole stream must end for the outcome to be stored, or raises.
    """
    for attempt in itertools.count():
        history, version = await log.read(subject)
        state = fold((fact for recorded in history for fact in recorded.commit.facts), None)
        facts = decide(state)
        if not facts:
            return Handled(state, [], version.sequence)
        commit_id = new_ulid()
        try:
            version = await _append(log, subject, facts, version, commit_id, fence() if fence else None)
        except ConflictError:
            if tries is not None and attempt >= tries - 1:
                raise
            await asyncio.sleep(CONFLICT_SECONDS * min(attempt, MAX_CONFLICT_PAUSES))
            continue
        return Handled(fold(facts, state), facts, version.sequence)
    raise AssertionError("unreachable")


async def _append(
    log: EventLog, subject: str, facts: list[Fact], version: Version, commit_id: str, end: int | None
) -> Version:
    """Append; without a reply, append once more with the same commit id."""
    try:
        return await log.append(subject, facts, expected=version, commit_id=commit_id, stream_end=end)
    except UnknownOutcomeError:
        return await log.append(subject, facts, expected=version, commit_id=commit_id, stream_end=end)
