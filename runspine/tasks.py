"""Reliable cancellation of asyncio tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


async def cancel_and_wait(*tasks: asyncio.Future[Any], patience: float = 1.0) -> None:
    """Cancel tasks until each has ended.

    Once is not enough: before Python 3.12 `asyncio.wait_for`, which nats-py uses, swallows a
    cancellation that arrives together with its result.
    """
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=patience)
    # Retrieve each exception, or asyncio logs that it was never retrieved.
    await asyncio.gather(*tasks, return_exceptions=True)


async def run_together(*loops: Coroutine[Any, Any, None]) -> None:
    """Run loops that should never end, until one ends or fails; then all are cancelled.

    Unlike a task group, a loop that swallowed its cancellation is cancelled again.
    """
    tasks = [asyncio.ensure_future(loop) for loop in loops]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception()]
        await cancel_and_wait(*tasks)
    for task in failed:
        task.result()


@contextlib.asynccontextmanager
async def alongside(**work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines as tasks of these names, and cancel them at the end. Their errors are not raised."""
    tasks = [asyncio.create_task(each, name=name) for name, each in work.items()]
    try:
        yield
    finally:
        await cancel_and_wait(*tasks)
