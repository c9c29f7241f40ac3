"""A stack in the foreground, until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from runspine.embedded.home import Home
from runspine.embedded.part import PartEvent
from runspine.embedded.plan import StackOptions
from runspine.embedded.stack import Stack, supervised

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(
    home: Home,
    options: StackOptions,
    on_event: Callable[[PartEvent], None],
    on_ready: Callable[[Stack], None],
) -> None:
    """Run a stack until a signal. The first signal stops parts in order, a second one at once."""
    asyncio.run(_serve(home, options, on_event, on_ready))


async def _serve(
    home: Home,
    options: StackOptions,
    on_event: Callable[[PartEvent], None],
    on_ready: Callable[[Stack], None],
) -> None:
    signals = SignalHandler()
    with contextlib.suppress(asyncio.CancelledError):
        async with supervised(home, options, on_event) as stack:
            signals.stack = stack
            await stack.start()
            on_ready(stack)
            await asyncio.Event().wait()


class SignalHandler:
    """Cancels the task that created it on the first signal; the second stops the stack at once."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self.stack: Stack | None = None
        self._signalled = False
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        if self._signalled and self.stack is not None:
            self.stack.hurry()
        elif not self._signalled and self._task is not None:
            self._signalled = True
            self._task.cancel()
