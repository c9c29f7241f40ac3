"""One event loop in a thread of its own, which carries out the calls of all clients of a process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
CLOSE_SECONDS = 5.0


class LoopThread:
    """An event loop in a daemon thread. A caller may have a running loop of its own, as in a notebook."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="runspine-api", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for the result. An interrupt of the caller cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The same without blocking the caller's loop; cancelling the caller cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        try:
            while True:
                try:
                    item = self.run(anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self.run(items.aclose())

    async def aiterate(self, items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        try:
            while True:
                try:
                    item = await self.wait(anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            await self.wait(items.aclose())


_lock = threading.Lock()
_current: LoopThread | None = None


def loop_thread() -> LoopThread:
    """The process's loop. gRPC's asynchronous client supports one loop in a process; a forked child, in which
    the thread does not exist, gets its own."""
    global _current  # noqa: PLW0603 - one for the process
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = LoopThread()
        return _current
