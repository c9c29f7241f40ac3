"""What a fact of a worker costs: one request, however many facts came before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from runspine.services.worker.facts.fact_writer import FactWriter, RetryingLog
from runspine.wire.v1.facts_pb2 import Fact


@dataclass(slots=True)
class Reads:
    """Reads of a history for one commit: how many, and how many had a reason."""

    count: int = 0
    allowed: int = 0


COMMIT: ContextVar[Reads | None] = ContextVar("COMMIT", default=None)


@contextmanager
def counted_reads(problem: Callable[[str], None]) -> Iterator[None]:
    """Report a commit that reads the history again without a reason.

    Reasons are that it was not read yet, that an append failed, and that nothing is left to write.
    """
    with ExitStack() as stack:
        stack.enter_context(patch.object(FactWriter, "_commit", _committed(problem)))
        stack.enter_context(patch.object(FactWriter, "read_version", _read()))
        stack.enter_context(patch.object(RetryingLog, "append", _appended()))
        yield


def _committed(problem: Callable[[str], None]) -> Any:
    before = FactWriter._commit

    async def commit(self: FactWriter, subject: str, entry: Any, decide: Any) -> Any:
        reads = Reads(allowed=entry.history is None)

        def counted(history: list[Fact]) -> list[Fact]:
            facts: list[Fact] = decide(history)
            reads.allowed += not facts
            return facts

        token = COMMIT.set(reads)
        try:
            facts = await before(self, subject, entry, counted)
        finally:
            COMMIT.reset(token)
        if reads.count > reads.allowed:
            problem(f"a fact had the history of {subject.partition('.')[0]} read again")
        return facts

    return commit


def _read() -> Any:
    before = FactWriter.read_version

    async def read_version(self: FactWriter, subject: str) -> Any:
        if (reads := COMMIT.get()) is not None:
            reads.count += 1
        return await before(self, subject)

    return read_version


def _appended() -> Any:
    before = RetryingLog.append

    async def append(self: RetryingLog, *arguments: Any, **more: Any) -> Any:
        try:
            return await before(self, *arguments, **more)
        except BaseException:
            if (reads := COMMIT.get()) is not None:
                reads.allowed += 1
            raise

    return append
