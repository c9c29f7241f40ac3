"""Stacks of a run's processes and terminals next to its trainer, asked of its worker over core NATS."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator

import structlog
from google.protobuf.message import DecodeError

from runspine.domain.run import RunRefusedError
from runspine.errors import Violation
from runspine.eventlog import UnknownOutcomeError
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import CoreMessage, messages_of, try_publish
from runspine.eventlog.permissions import PROCESS_REPLIES
from runspine.eventlog.subjects import processes_subject
from runspine.rpc.auth import caller, caller_scope
from runspine.rpc.errors import InvalidInputError
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.processes_pb2 import (
    AttachRequest,
    AttachResponse,
    DumpStacksRequest,
    DumpStacksResponse,
    ProcessReply,
    ProcessRequest,
)
from runspine.wire.v1.run_pb2 import CANCELLING, RUNNING, STALE, Phase, Run

log = structlog.get_logger()

# py-spy takes a part of a second for each process, of which there may be dozens.
STACKS_SECONDS = 60.0
BEGIN_SECONDS = 15.0
# The worker gives a sign of life every few seconds.
SILENT_SECONDS = 20.0
MAX_CONVERSATIONS = 64
MAX_INPUT_BYTES = 64 << 10
MAX_COMMAND_BYTES = 64 << 10
WITH_PROCESSES = (RUNNING, STALE, CANCELLING)
LOST = "messages between the orchestrator and the worker were lost"


class Conversation:
    """Numbered messages to one worker, and its replies in order."""

    def __init__(self, link: NatsConnection, run: Run, reply: str) -> None:
        self._link = link
        self._run = run
        self._reply = reply
        self._replies: asyncio.Queue[ProcessReply | None] = asyncio.Queue()
        self._sending = asyncio.Lock()
        self._sent = self._received = 0

    def receive(self, message: CoreMessage) -> None:
        """Take a reply. Any worker may publish one: it counts only from the run's own."""
        if message.nobody:
            self._replies.put_nowait(None)
            return
        try:
            reply = ProcessReply.FromString(message.data)
        except DecodeError as error:
            log.warning("processes.unreadable", worker_id=self._run.worker_id, error=str(error))
            return
        if reply.worker_id == self._run.worker_id:
            self._replies.put_nowait(reply)

    async def send(self, request: ProcessRequest) -> None:
        """Raises UnknownOutcomeError when NATS does not take it."""
        async with self._sending:
            self._sent += 1
            request.run_id, request.attempt, request.sequence = self._run.id, self._run.attempt, self._sent
            subject = processes_subject(self._run.worker_id)
            if not await try_publish(self._link, subject, request.SerializeToString(), self._reply):
                raise UnknownOutcomeError("NATS does not take the request: try again in a moment")

    async def next(self, seconds: float) -> ProcessReply:
        """Raises UnknownOutcomeError when the worker is silent, and RunRefusedError with its reason."""
        try:
            reply = await asyncio.wait_for(self._replies.get(), seconds)
        except TimeoutError:
            raise UnknownOutcomeError(f"worker {self._run.worker_id} does not answer") from None
        if reply is None:
            raise UnknownOutcomeError(
                f"worker {self._run.worker_id} is not reachable, or is of a release that cannot do this"
            )
        if reply.HasField("refused"):
            raise RunRefusedError(f"worker {self._run.worker_id}: {reply.refused}")
        self._received += 1
        if reply.sequence != self._received:
            raise UnknownOutcomeError(LOST)
        return reply


class RunProcesses:
    """Conversations of this process, each under a number of its own."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._inbox = f"{PROCESS_REPLIES}.{link.token}"
        self._numbers = itertools.count(1)
        self._open: dict[str, Conversation] = {}

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Receive replies while the context is open."""
        async with messages_of(self._link, f"{self._inbox}.*", self._receive):
            yield

    async def stacks(self, run: Run) -> DumpStacksResponse:
        """The processes of a run with their stacks."""
        _refuse_idle(run)
        with self._conversation(run) as worker:
            await worker.send(ProcessRequest(stacks=DumpStacksRequest()))
            return (await worker.next(STACKS_SECONDS)).stacks

    async def attach(
        self, run: Run, first: AttachRequest, requests: AsyncIterator[AttachRequest]
    ) -> AsyncIterator[AttachResponse]:
        """What the terminal shows, until its program has ended."""
        if caller_scope.get() != "admin" and run.submitted_by != caller.get():
            raise RunRefusedError(f"the run is of {run.submitted_by!r}: its owner or an admin may attach")
        _refuse_idle(run)
        if len(b"".join(word.encode() for word in first.begin.command)) > MAX_COMMAND_BYTES:
            raise InvalidInputError([Violation("command", f"is longer than {MAX_COMMAND_BYTES:,} bytes")])
        with self._conversation(run) as worker:
            await worker.send(ProcessRequest(begin=first.begin))
            began = (await worker.next(BEGIN_SECONDS)).began
            began.worker_id = run.worker_id
            yield AttachResponse(began=began)
            keys = asyncio.create_task(_send_keys(worker, requests))
            try:
                async for response in _relay(worker):
                    yield response
            finally:
                await cancel_and_wait(keys)
                with contextlib.suppress(UnknownOutcomeError):
                    await worker.send(ProcessRequest(end=True))

    @contextlib.contextmanager
    def _conversation(self, run: Run) -> Iterator[Conversation]:
        if len(self._open) >= MAX_CONVERSATIONS:
            raise UnknownOutcomeError("too many terminals are open: try again later")
        subject = f"{self._inbox}.{next(self._numbers)}"
        self._open[subject] = Conversation(self._link, run, subject)
        try:
            yield self._open[subject]
        finally:
            del self._open[subject]

    def _receive(self, message: CoreMessage) -> None:
        conversation = self._open.get(message.subject)
        if conversation is not None:
            conversation.receive(message)


async def _relay(worker: Conversation) -> AsyncIterator[AttachResponse]:
    """Output as the client takes it. Each message is answered, which is a sign of life as well."""
    taken = 0
    while True:
        reply = await worker.next(SILENT_SECONDS)
        if reply.HasField("output"):
            yield AttachResponse(output=reply.output)
            taken += len(reply.output)
        elif reply.HasField("ended"):
            yield AttachResponse(ended=reply.ended)
            return
        await worker.send(ProcessRequest(taken=taken))


async def _send_keys(worker: Conversation, requests: AsyncIterator[AttachRequest]) -> None:
    """Pass on keys and sizes until the client has no more of them."""
    async for request in requests:
        if request.HasField("size"):
            await worker.send(ProcessRequest(size=request.size))
        for start in range(0, len(request.input), MAX_INPUT_BYTES):
            await worker.send(ProcessRequest(input=request.input[start : start + MAX_INPUT_BYTES]))


def _refuse_idle(run: Run) -> None:
    if run.phase not in WITH_PROCESSES or not run.worker_id:
        raise RunRefusedError(f"the run is {Phase.Name(run.phase)}: it has no processes")
