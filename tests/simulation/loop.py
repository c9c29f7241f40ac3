"""An event loop with virtual time on which several nodes run in an order that a seed decides.

Each node is a process: its callbacks run in the order in which they were scheduled, as asyncio promises.
Between nodes anything is possible, so the seed picks the node whose turn it is: one round of its loop. A
killed node's callbacks are dropped, without any `finally`; a frozen node's wait. Nothing takes real time.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
from array import array
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

# What one callback takes, so that a loop that polls the clock comes to an end.
CALLBACK_SECONDS = 1e-5
# How long a call in another thread takes, at least and at most.
THREAD_SECONDS = (0.0001, 0.003)

Result = TypeVar("Result")


class Handle:
    """A callback that is due. It has what asyncio asks of its handles, and costs half as much."""

    __slots__ = ("_args", "_callback", "_context")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = context

    def cancel(self) -> None:
        self._callback, self._args = None, ()

    def cancelled(self) -> bool:
        return self._callback is None

    def run(self) -> None:
        if self._callback is not None:
            self._context.run(self._callback, *self._args)


class TimedHandle(Handle):
    """The same for a timer."""

    __slots__ = ("_when",)

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        super().__init__(callback, args, context)
        self._when = when

    def when(self) -> float:
        return self._when


class Node:
    """One simulated process. A new incarnation of a killed one is another Node."""

    def __init__(self, name: str, number: int = 0) -> None:
        self.name = name
        self.number = number
        self.ready: deque[Handle] = deque()
        self.alive = True
        self.frozen = False
        # Added to the wall clock of this node.
        self.skew = 0.0
        # For so long at most a call waits for a thread of this node.
        self.busy_seconds = 0.0
        # What is called from outside runs in this context.
        self.context = Context()

    def __repr__(self) -> str:
        return self.name


# Who calls when no process does: the network, the servers, the faults.
OUTSIDE = Node("outside")
NODE: ContextVar[Node] = ContextVar("NODE", default=OUTSIDE)


class SimulatedFuture(asyncio.Future[Any]):
    """A future whose hash is a counter: sets of futures have one order for one seed."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._number = next(loop.numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedTask(asyncio.Task[Any]):
    """The same for a task."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        loop: SimulatedLoop,
        name: str | None = None,
        context: Context | None = None,
    ) -> None:
        self._number = next(loop.numbers)
        super().__init__(coro, loop=loop, name=name or "task", context=context)

    def __hash__(self) -> int:
        return self._number


class ProcessKilledError(BaseException):
    """Raised in a thread of a simulated process that was killed: nothing of it goes on."""


class StuckError(Exception):
    """A schedule did more than it may, or waits for something that cannot come."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs handles of all nodes until a task of the schedule has ended."""

    def __init__(self, random: Random, most_callbacks: int = 2_000_000) -> None:
        self.random = random
        self.numbers = itertools.count()
        self.now = 0.0
        self.callbacks = 0
        self.most_callbacks = most_callbacks
        self.trace = hashlib.blake2b(digest_size=16)
        self.lines: list[str] | None = None
        self.crashes: list[str] = []
        # Seconds that a blocking call in a thread has slept.
        self.slept = 0.0
        self._nodes: list[Node] = []
        self._numbers = itertools.count(1)
        # What is due: of a process a handle, from outside a callback with its arguments.
        self._timers: list[tuple[float, int, Node | None, Any, tuple[Any, ...]]] = []
        self._serial = itertools.count()
        # The turns of the schedule, when and whose; part of its digest.
        self._turns = array("d")
        # Kept until the end of the schedule: a collected coroutine would run its `finally`.
        self._kept: list[Any] = []

    def add_node(self, name: str) -> Node:
        node = Node(name, next(self._numbers))
        node.context.run(NODE.set, node)
        self._nodes.append(node)
        return node

    def digest(self) -> str:
        """Of every message and every turn: the same for two runs of one seed."""
        whole = self.trace.copy()
        whole.update(self._turns.tobytes())
        return whole.hexdigest()

    def kill(self, node: Node) -> None:
        """kill -9: nothing of the node runs any more, and no `finally`."""
        node.alive = False
        self._kept.append(list(node.ready))
        node.ready.clear()
        self._nodes.remove(node)
        self.note(f"kill {node.name}")

    def freeze(self, node: Node, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so many seconds."""
        node.frozen = True
        self.note(f"freeze {node.name} {seconds:.3f}")
        self.after(seconds, self._thaw, node)

    def _thaw(self, node: Node) -> None:
        node.frozen = False

    def note(self, text: str | bytes) -> None:
        """Add to the trace, by whose digest two runs of a seed are compared."""
        raw = text if isinstance(text, bytes) else text.encode()
        self.trace.update(raw)
        if self.lines is not None:
            self.lines.append(f"{self.now:10.6f} {raw.decode(errors='replace')[:300]}")

    def spawn(self, node: Node, coro: Coroutine[Any, Any, Result], name: str = "") -> asyncio.Task[Result]:
        """Run a coroutine as part of a node."""
        return self.create_task(coro, name=name or None, context=node.context.copy())

    def after(self, seconds: float, callback: Callable[..., object], *args: Any) -> None:
        """Call from outside of every node: what the network, the servers and the faults do."""
        self.at(self.now + seconds, callback, *args)

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        """The same at an instant."""
        heapq.heappush(self._timers, (when, next(self._serial), None, callback, args))

    def within(self, node: Node, callback: Callable[..., object], *args: Any) -> None:
        """Call as part of a node, soon."""
        handle = Handle(callback, args, node.context)
        if node.alive:
            node.ready.append(handle)
        else:
            self._kept.append(handle)

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context if context is not None else copy_context())
        node = context.get(NODE, OUTSIDE) if context is not None else NODE.get()
        if node is OUTSIDE:
            heapq.heappush(self._timers, (self.now, next(self._serial), None, handle.run, ()))
        elif node.alive:
            node.ready.append(handle)
        else:
            self._kept.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = TimedHandle(when, callback, args, context if context is not None else copy_context())
        node = context.get(NODE, OUTSIDE) if context is not None else NODE.get()
        if node is OUTSIDE:
            heapq.heappush(self._timers, (when, next(self._serial), None, handle.run, ()))
        else:
            heapq.heappush(self._timers, (when, next(self._serial), node, handle, ()))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = SimulatedTask(coro, self, name, context)
        self._kept.append(task)
        return task

    def run_in_executor(self, _: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Runs at once, or later while the threads of its process are busy. The result arrives later still,
        or never when the node is killed before."""
        future = self.create_future()
        node = NODE.get()
        if node.busy_seconds:
            self.call_later(self.random.uniform(0.0, node.busy_seconds), self._work, future, func, args)
        else:
            self._work(future, func, args)
        return future

    def _work(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.slept = 0.0
        try:
            result, error = func(*args), None
        except ProcessKilledError:
            self._kept.append(future)
            return
        except Exception as raised:  # noqa: BLE001 - it is raised where the future is awaited
            result, error = None, raised
        delay = self.random.uniform(*THREAD_SECONDS) + self.slept
        self.call_later(delay, _settle, future, result, error)

    async def create_unix_server(self, *_: Any, **__: Any) -> Any:
        raise OSError("a simulated machine has no sockets")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and "never retrieved" not in context.get("message", ""):
            self.crashes.append(f"{NODE.get()}: {context.get('message')}: {error!r}")

    def run_until(self, main: asyncio.Future[Result], until: float) -> Result:
        """Run until the future is done. Raises StuckError after so many virtual seconds or callbacks."""
        with self._running():
            while not main.done():
                if not self._turn():
                    raise StuckError("nothing is left to do")
                if self.now > until or self.callbacks > self.most_callbacks:
                    raise StuckError(f"not done after {self.now:.1f} s and {self.callbacks} callbacks")
            return main.result()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """asyncio's own functions ask the kernel for the number of the process each time."""

        def this() -> SimulatedLoop:
            return self

        asyncio.events._set_running_loop(self)
        replaced = [
            (asyncio, "get_running_loop"),
            (events, "get_running_loop"),
            (events, "_get_running_loop"),
        ]
        patches = [patch.object(module, name, this) for module, name in replaced]
        for one in patches:
            one.start()
        try:
            yield
        finally:
            for one in patches:
                one.stop()
            asyncio.events._set_running_loop(None)

    def _turn(self) -> bool:
        """What is due from outside, then one round of one node; False when there is nothing to do."""
        timers = self._timers
        while True:
            if timers and timers[0][0] <= self.now:
                self._wake()
            ready = [node for node in self._nodes if node.ready and not node.frozen]
            if ready:
                break
            if not timers:
                return False
            if timers[0][0] > self.now:
                self.now = timers[0][0]
        node = ready[0] if len(ready) == 1 else ready[int(self.random.random() * len(ready))]
        self._turns.append(self.now)
        self._turns.append(node.number)
        self._round(node.ready)
        return True

    def _round(self, ready: deque[Handle]) -> None:
        """The callbacks that are ready now, as one round of asyncio's own loop."""
        for _ in range(len(ready)):
            if not ready:
                return  # it was killed by what it did
            handle = ready.popleft()
            callback = handle._callback
            if callback is None:
                continue
            self.callbacks += 1
            self.now += CALLBACK_SECONDS
            try:
                handle._context.run(callback, *handle._args)
            except Exception as error:  # noqa: BLE001 - as asyncio does: it is reported, and the loop goes on
                self.call_exception_handler({"message": "a callback failed", "exception": error})

    def _wake(self) -> None:
        """Everything that is due: of nodes into their queues, from outside at once."""
        timers, pop = self._timers, heapq.heappop
        while timers and timers[0][0] <= self.now:
            _, _, node, what, args = pop(timers)
            if node is None:
                self.callbacks += 1
                what(*args)
            elif what._callback is None:
                continue
            elif node.alive:
                node.ready.append(what)
            else:
                self._kept.append(what)


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
