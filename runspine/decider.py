"""The whole application layer: read, fold, decide, append; again when another writer was first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from runspine.ids import new_ulid
from runspine.log import Conflict, EventLog, Unknown, Version
from runspine.wire.v1.facts_pb2 import Fact

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Handled(Generic[State]):
    """What came of a command."""

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
    tries: int = 5,
) -> Handled[State]:
    """Decide on the newest history and store the outcome, or raise Conflict after `tries`."""
    for attempt in range(tries):
        history, version = await log.read(subject)
        state = fold((fact for recorded in history for fact in recorded.commit.facts), None)
        facts = decide(state)
        if not facts:
            return Handled(state, [], version.sequence)
        commit_id = new_ulid()
        try:
            version = await _append(log, subject, facts, version, commit_id)
        except Conflict:
            if attempt == tries - 1:
                raise
            await asyncio.sleep(0.005 * attempt)
            continue
        return Handled(fold(facts, state), facts, version.sequence)
    raise AssertionError("unreachable")


async def _append(
    log: EventLog, subject: str, facts: list[Fact], version: Version, commit_id: str
) -> Version:
    """Append; an unanswered one is asked again once, under the same id."""
    try:
        return await log.append(subject, facts, expected=version, commit_id=commit_id)
    except Unknown:
        return await log.append(subject, facts, expected=version, commit_id=commit_id)
