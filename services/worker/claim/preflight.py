"""Answers launch checks: requests on preflight.<worker_id>, replies to the orchestrator's inbox."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

import structlog
from google.protobuf.message import DecodeError

from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import CoreMessage, messages_of, try_publish
from runspine.eventlog.permissions import PREFLIGHT_REPLIES
from runspine.eventlog.subjects import preflight_subject
from runspine.services.worker.claim.launch_check import LaunchChecker, remove_leftovers
from runspine.services.worker.metrics import PREFLIGHTS
from runspine.wire.v1.preflight_pb2 import PreflightReply, PreflightRequest

log = structlog.get_logger()

# Checks at the same time: each may run a probe, and the cores belong to trainers.
MAX_CHECKS = 2
# Further ones that wait; beyond it the answer is that nothing is known.
MAX_WAITING = 64
# A check that takes longer is answered as unknown. Its thread ends with the probe's own limit.
CHECK_SECONDS = 20.0
MAX_PROBLEMS = 20
MAX_TEXT = 2_000
MAX_COMMAND_BYTES = 64 << 10
# The only subjects that a reply goes to: a request must not make the worker publish anywhere else.
_REPLY = re.compile(re.escape(PREFLIGHT_REPLIES) + r"\.[0-9a-f]{1,32}\.[0-9]{1,20}\Z")


class PreflightResponder:
    """Takes requests while it is entered; a bounded number of them at once and in a bounded time."""

    def __init__(self, link: NatsConnection, checker: LaunchChecker) -> None:
        self._link = link
        self._checker = checker
        self._waiting: deque[tuple[str, PreflightRequest]] = deque()
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer requests until the context is left."""
        await asyncio.to_thread(remove_leftovers, self._checker)
        async with messages_of(self._link, preflight_subject(self._checker.worker_id), self._receive):
            try:
                yield
            finally:
                self._waiting.clear()
                for task in self._tasks:
                    task.cancel()

    def _receive(self, message: CoreMessage) -> None:
        if not _REPLY.match(message.reply):
            log.warning("preflight.refused", reply=message.reply[:100])
            return
        try:
            request = PreflightRequest.FromString(message.data)
        except DecodeError as error:
            log.warning("preflight.unreadable", error=str(error))
            return
        if len(self._waiting) >= MAX_WAITING:
            busy = f"worker {self._checker.worker_id} is busy with {MAX_WAITING + self._running} other checks"
            self._start(self._send(message.reply, PreflightReply(unknown=busy)))
            return
        self._waiting.append((message.reply, request))
        self._next()

    def _next(self) -> None:
        while self._waiting and self._running < MAX_CHECKS:
            self._running += 1
            self._start(self._answer(*self._waiting.popleft()))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="preflight")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reply_subject: str, request: PreflightRequest) -> None:
        checking = self._in_thread(request)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                reply = await asyncio.shield(checking)
        except TimeoutError:
            reply = PreflightReply(unknown=f"the check took longer than {CHECK_SECONDS:.0f} s")
        await self._send(reply_subject, reply)

    def _in_thread(self, request: PreflightRequest) -> asyncio.Future[PreflightReply]:
        """The reply, from a daemon thread: a runner that hangs does not keep the worker from ending.

        The place of the check is free again when its thread ends, not when the answer was given up.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[PreflightReply] = loop.create_future()

        def finish(reply: PreflightReply) -> None:
            self._running -= 1
            if not done.done():
                done.set_result(reply)
            self._next()

        def work() -> None:
            try:
                reply = self._checker.check(request)
            # Runners are third-party code: a bug must not take the place of this check for ever.
            except Exception as error:
                log.exception("preflight.failed", runner=request.spec.runner)
                reply = PreflightReply(unknown=f"the check failed: {type(error).__name__}: {error}")
            with contextlib.suppress(RuntimeError):  # the loop has ended with the worker
                loop.call_soon_threadsafe(finish, reply)

        threading.Thread(target=work, name="preflight", daemon=True).start()
        return done

    async def _send(self, reply_subject: str, reply: PreflightReply) -> None:
        reply.worker_id = self._checker.worker_id
        answer = "unknown" if reply.unknown else "problems" if reply.problems else "ready"
        PREFLIGHTS.labels(answer).inc()
        await try_publish(self._link, reply_subject, bounded(reply).SerializeToString())


def bounded(reply: PreflightReply) -> PreflightReply:
    """The reply within limits, because a run keeps it. Pure."""
    small = PreflightReply(
        worker_id=reply.worker_id,
        notices=[text[:MAX_TEXT] for text in reply.notices[:MAX_PROBLEMS]],
        directory=reply.directory[:MAX_TEXT],
        unknown=reply.unknown[:MAX_TEXT],
    )
    for problem in reply.problems[:MAX_PROBLEMS]:
        small.problems.add(field=problem.field[:MAX_TEXT], message=problem.message[:MAX_TEXT])
    small.command.extend(bounded_command(reply.command))
    return small


def bounded_command(words: Iterable[str]) -> list[str]:
    """The words of a command up to the limit; a last word … stands for the rest. Pure."""
    kept: list[str] = []
    size = 0
    for word in words:
        size += len(word.encode("utf-8", "replace")) + 4
        if size > MAX_COMMAND_BYTES:
            return [*kept, "…"]
        kept.append(word)
    return kept
