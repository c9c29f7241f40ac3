"""Rare branches of the product that report when a schedule reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from runspine.eventlog import ConflictError, UnknownOutcomeError, publisher
from runspine.eventlog.jetstream import JetStreamLog

Reach = Callable[[str], None]


@contextmanager
def observed(reach: Reach) -> Iterator[None]:
    """Count the branches while it is open. A fault that was switched back on stays so."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(JetStreamLog, "_own_or_conflict", _looked_up(reach)))
        stack.enter_context(patch.object(publisher, "_is_behind", _behind(reach)))
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
