"""Waiting for a condition. A failure states what was waited for and what was seen last."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")
POLL_SECONDS = 0.02
COMPUTED_SECONDS = 0.05
MAX_POLL_SECONDS = 0.2


class WaitError(AssertionError):
    """A condition that did not come true in time."""


def until(
    probe: Callable[[], T | None], seconds: float = 120.0, what: str = "", *, poll: float = POLL_SECONDS
) -> T:
    """Call the probe until it returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (seen := probe()):
        if time.monotonic() >= deadline:
            raise WaitError(_message(probe, seconds, what, seen))
        time.sleep(poll)
        poll = min(poll * 1.2, MAX_POLL_SECONDS)
    return seen


@overload
async def eventually(
    probe: Callable[[], Coroutine[Any, Any, T | None]],
    seconds: float = ...,
    what: str = ...,
    *,
    poll: float = ...,
) -> T: ...


@overload
async def eventually(
    probe: Callable[[], T | None], seconds: float = ..., what: str = ..., *, poll: float = ...
) -> T: ...


async def eventually(
    probe: Callable[[], Any], seconds: float = 120.0, what: str = "", *, poll: float = POLL_SECONDS
) -> Any:
    """The same in a coroutine. A plain function is called in a thread: it may block."""
    deadline = time.monotonic() + seconds
    while True:
        seen: Any = await probe() if inspect.iscoroutinefunction(probe) else await asyncio.to_thread(probe)
        if inspect.isawaitable(seen):
            seen = await seen
        if seen:
            return seen
        if time.monotonic() >= deadline:
            raise WaitError(_message(probe, seconds, what, seen))
        await asyncio.sleep(poll)
        poll = min(poll * 1.2, MAX_POLL_SECONDS)


def _message(probe: Callable[..., object], seconds: float, what: str, seen: object) -> str:
    return f"not within {seconds:g} s: {what or _source(probe)}; seen last: {seen!r:.2000}"


def _source(probe: Callable[..., object]) -> str:
    """The probe's name, or the line on which a lambda is written."""
    code = getattr(probe, "__code__", None)
    if code is None or probe.__name__ != "<lambda>":
        return getattr(probe, "__qualname__", repr(probe))
    return linecache.getline(code.co_filename, code.co_firstlineno).strip()


def slowdown() -> float:
    """Seconds that pass while a process computes for one: 1 on an idle machine.

    A promise in seconds is one for a program that has a core to itself.
    """
    began, used = time.perf_counter(), time.process_time()
    while (spent := time.process_time() - used) < COMPUTED_SECONDS:
        pass
    return max(1.0, (time.perf_counter() - began) / spent)
