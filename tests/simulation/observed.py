"""Rare branches of the product that report when a schedule reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from runspine.eventlog import ConflictError, UnknownOutcomeError, publisher
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.projection import BehindError, Projector
from runspine.services.orchestrator.core.leases import Leases
from runspine.services.worker.attempt.attempt import Attempt
from runspine.services.worker.attempt.recovery import Recovery

Reach = Callable[[str], None]


@contextmanager
def observed(reach: Reach) -> Iterator[None]:
    """Count the branches while it is open. A fault that was switched back on stays so."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(JetStreamLog, "_own_or_conflict", _looked_up(reach)))
        stack.enter_context(patch.object(publisher, "_is_behind", _behind(reach)))
        stack.enter_context(patch.object(Projector, "require", _required(reach)))
        stack.enter_context(patch.object(Leases, "due_command", _due(reach)))
        stack.enter_context(patch.object(Attempt, "stop", _stopped(reach)))
        stack.enter_context(patch.object(Attempt, "_record_exit", _recorded(reach)))
        stack.enter_context(patch.object(Recovery, "_declare_lost", _lost(reach)))
        yield


def _looked_up(reach: Reach) -> Any:
    before = JetStreamLog._own_or_conflict

    async def own_or_conflict(self: JetStreamLog, *arguments: Any) -> Any:
        try:
            version = await before(self, *arguments)
        except ConflictError:
            reach("log.conflict")
            raise
        except UnknownOutcomeError:
            reach("log.conflict_unknown")
            raise
        reach("log.own_found")
        return version

    return own_or_conflict


def _behind(reach: Reach) -> Any:
    before = publisher._is_behind

    def is_behind(*arguments: Any) -> bool:
        found = before(*arguments)
        if found:
            reach("publisher.answer_behind")
        return found

    return is_behind


def _required(reach: Reach) -> Any:
    before = Projector.require

    async def require(self: Projector, stream: str, sequence: int) -> None:
        try:
            await before(self, stream, sequence)
        except BehindError:
            reach("board.behind")
            raise

    return require


def _due(reach: Reach) -> Any:
    before = Leases.due_command

    def due_command(self: Leases, *arguments: Any) -> Any:
        command = before(self, *arguments)
        if command is not None:
            reach(f"lease.{type(command).__name__}")
        return command

    return due_command


def _stopped(reach: Reach) -> Any:
    before = Attempt.stop

    def stop(self: Attempt, given: Any) -> None:
        reach("attempt.fenced" if given.fenced else "attempt.stopped")
        before(self, given)

    return stop


def _recorded(reach: Reach) -> Any:
    before = Attempt._record_exit

    async def record_exit(self: Attempt, exited: Any) -> bool:
        recorded = await before(self, exited)
        if not recorded:
            reach("attempt.late_exit_fenced")
        return recorded

    return record_exit


def _lost(reach: Reach) -> Any:
    before = Recovery._declare_lost

    async def declare_lost(self: Recovery, *arguments: Any) -> None:
        reach("attempt.declared_lost")
        await before(self, *arguments)

    return declare_lost
