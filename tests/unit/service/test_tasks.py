from __future__ import annotations

import asyncio

import pytest

from runspine.tasks import cancel_and_wait, run_together


async def test_a_task_that_swallows_a_cancellation_ends_all_the_same() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed == 3:
                    raise

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(cancel_and_wait(task, patience=0.01), 5)
    assert task.cancelled()
    assert swallowed == 3


async def test_a_task_that_has_failed_is_no_trouble() -> None:
    async def fail() -> None:
        raise ValueError

    task = asyncio.create_task(fail())
    await asyncio.wait({task})
    await cancel_and_wait(task)


async def test_loops_run_together_until_one_fails_and_then_all_end() -> None:
    ended: list[str] = []

    async def stubborn() -> None:
        swallowed = False
        while True:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                if swallowed:
                    ended.append("stubborn")
                    raise
                swallowed = True

    async def failing() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        await run_together(stubborn(), failing())
    assert ended == ["stubborn"]
