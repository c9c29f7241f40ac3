"""A stack that lives until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from runspine.embedded.home import Home
from runspine.embedded.keeper import Event
from runspine.embedded.plan import Wish
from runspine.embedded.stack import Stack, supervised

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(
    home: Home, wish: Wish, tell: Callable[[Event], None], on_ready: Callable[[Stack], None]
) -> None:
    """Start, serve, stop. The first signal stops in order, a second one at once."""
    asyncio.run(_serve(home, wish, tell, on_ready))


async def _serve(
    home: Home, wish: Wish, tell: Callable[[Event], None], on_ready: Callable[[Stack], None]
) -> None:
    ending = Ending()
    with contextlib.suppress(asyncio.CancelledError):
        async with supervised(home, wish, tell) as stack:
            ending.of(stack)
            await stack.start()
            on_ready(stack)
            await asyncio.Event().wait()


class Ending:
    """Turns signals into the end of the task that made it."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._stack: Stack | None = None
        self._told = False
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._hear)

    def of(self, stack: Stack) -> None:
        self._stack = stack

    def _hear(self) -> None:
        if self._told and self._stack is not None:
            self._stack.hurry()
        elif not self._told and self._task is not None:
            self._told = True
            self._task.cancel()
