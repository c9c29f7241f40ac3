"""Answers on processes.<worker_id>: stacks of a run's processes, and terminals next to its trainer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any

import structlog
from google.protobuf.message import DecodeError

from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import CoreMessage, messages_of, try_publish
from runspine.eventlog.permissions import PROCESS_REPLIES
from runspine.eventlog.subjects import processes_subject
from runspine.services.worker.attach.session import AttachSession
from runspine.services.worker.attempt.attempt import Attempt
from runspine.services.worker.process.stacks import describe_processes
from runspine.services.worker.settings import WorkerSettings
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.processes_pb2 import ProcessReply, ProcessRequest

log = structlog.get_logger()

MAX_SESSIONS, MAX_DUMPS = 8, 2
# The only subjects that a reply goes to: a request must not make the worker publish anywhere else.
_REPLY = re.compile(re.escape(PROCESS_REPLIES) + r"\.[0-9a-f]{1,32}\.[0-9]{1,20}\Z")
CLOSED = "this worker opens no terminals: RUNSPINE_WORKER_ATTACH is false"


class ProcessResponder:
    """Takes requests while it is entered; `held` are the worker's attempts by name."""

    def __init__(self, link: NatsConnection, settings: WorkerSettings, held: Mapping[str, Attempt]) -> None:
        self._link = link
        self._settings = settings
        self._held = held
        self._sessions: dict[str, AttachSession] = {}
        self._dumps: set[str] = set()
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer requests until the context is left, which ends all terminals."""
        subject = processes_subject(self._settings.worker_id)
        async with messages_of(self._link, subject, self._receive):
            try:
                yield
            finally:
                await cancel_and_wait(*self._tasks)

    def _receive(self, message: CoreMessage) -> None:
        if not _REPLY.match(message.reply):
            log.warning("processes.refused", reply=message.reply[:100])
            return
        try:
            request = ProcessRequest.FromString(message.data)
        except DecodeError as error:
            log.warning("processes.unreadable", error=str(error))
            return
        session = self._sessions.get(message.reply)
        if session is not None:
            session.receive(request)
        elif request.HasField("stacks") or request.HasField("begin"):
            self._begin(message.reply, request)

    def _begin(self, reply: str, request: ProcessRequest) -> None:
        attempt = self._held.get(f"{request.run_id}.{request.attempt}")
        if reason := self._refusal(attempt, request):
            self._start(self._send(reply, self._refused(reason)))
        elif request.HasField("stacks"):
            assert attempt is not None
            self._dumps.add(reply)
            self._start(self._dump(reply, attempt))
        else:
            assert attempt is not None
            lock = self._settings.worker_dir / "attached" / f"attach{next(self._numbers)}.lock"

            async def send(answer: ProcessReply) -> bool:
                return await self._send(reply, answer)

            session = AttachSession(attempt, self._settings.worker_id, lock, send)
            self._sessions[reply] = session
            self._start(self._attached(reply, session, request))

    def _refusal(self, attempt: Attempt | None, request: ProcessRequest) -> str:
        if attempt is None or attempt.trainer is None:
            return "its trainer does not run now"
        if request.HasField("stacks"):
            return "" if len(self._dumps) < MAX_DUMPS else "other stacks are being read: try again"
        if not self._settings.worker_attach:
            return CLOSED
        return "" if len(self._sessions) < MAX_SESSIONS else f"{MAX_SESSIONS} terminals are open there"

    async def _dump(self, reply: str, attempt: Attempt) -> None:
        try:
            assert attempt.trainer is not None
            found = await asyncio.to_thread(describe_processes, attempt.trainer.process.pid)
        finally:
            self._dumps.discard(reply)
        redact = attempt.claim.prepared.redact
        for process in found.processes:
            process.command = redact(process.command)
            process.lines[:] = [redact(line) for line in process.lines]
        found.worker_id, found.attempt = self._settings.worker_id, attempt.number
        await self._send(reply, ProcessReply(worker_id=self._settings.worker_id, sequence=1, stacks=found))

    async def _attached(self, reply: str, session: AttachSession, request: ProcessRequest) -> None:
        try:
            await session.run(request)
        finally:
            del self._sessions[reply]

    def _refused(self, reason: str) -> ProcessReply:
        return ProcessReply(worker_id=self._settings.worker_id, sequence=1, refused=reason)

    async def _send(self, subject: str, reply: ProcessReply) -> bool:
        return await try_publish(self._link, subject, reply.SerializeToString())

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work, name="processes")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("processes.failed", exc_info=error)
