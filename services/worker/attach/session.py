"""One attached terminal: keys come in numbered messages, output goes out as the client takes it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from runspine.services.worker.attach.terminal import Terminal
from runspine.services.worker.attempt.attempt import Attempt
from runspine.services.worker.process.trainer_process import NotStartedError
from runspine.wire.v1.processes_pb2 import AttachBegan, AttachEnded, ProcessReply, ProcessRequest

log = structlog.get_logger()

# Output that the client has not taken yet.
WINDOW_BYTES = 256 << 10
# Signs of life are sent this often; without one for so long the other side is gone.
ALIVE_SECONDS, SILENT_SECONDS = 5.0, 20.0
POLL_SECONDS = 0.5
# How often the end of a killed program looks for that of the trainer, every 0.1 s.
KILLED_CHECKS = 10
ENDED = "the trainer has ended"
LOST = "messages between the orchestrator and the worker were lost"

Send = Callable[[ProcessReply], Awaitable[bool]]


class AttachSession:
    """From its first message to its end; `run` is a task, `receive` takes later messages."""

    def __init__(self, attempt: Attempt, worker_id: str, lock: Path, send: Send) -> None:
        self._attempt = attempt
        self._worker_id = worker_id
        self._lock = lock
        self._send_reply = send
        self._terminal: Terminal | None = None
        self._early: list[ProcessRequest] = []
        self._wake = asyncio.Event()
        self._received, self._sent = 1, 0
        self._written, self._taken = 0, 0
        self._last_received = time.monotonic()
        self._over = ""

    def receive(self, request: ProcessRequest) -> None:
        """The next message of the client."""
        self._last_received = time.monotonic()
        self._received += 1
        if request.sequence != self._received:
            self._end(LOST)
        elif self._terminal is None:
            self._early.append(request)
        else:
            self._apply(self._terminal, request)

    async def run(self, begin: ProcessRequest) -> None:
        """Return when the program has ended, or the session."""
        try:
            terminal = await Terminal.start(self._attempt, begin.begin, self._lock)
        except NotStartedError as error:
            await self._send(ProcessReply(refused=str(error)))
            return
        self._terminal = terminal
        log.info("attach.began", run_id=begin.run_id, attempt=begin.attempt)
        terminal.exit.add_done_callback(lambda _: self._wake.set())
        try:
            began = AttachBegan(attempt=begin.attempt, sandboxed=self._attempt.sandboxed)
            await self._send(ProcessReply(began=began))
            for request in self._early:
                self._apply(terminal, request)
            await self._relay(terminal)
            if terminal.exit.done():
                ended = terminal.exit.result()
                code = 128 + ended.signal if ended.signal else ended.exit_code
                reason = await terminal.problem(ended) or await self._reason(code)
                await self._send(ProcessReply(ended=AttachEnded(exit_code=code, reason=reason)))
            else:
                await self._send(ProcessReply(ended=AttachEnded(exit_code=-1, reason=self._over)))
        finally:
            await terminal.close()
            log.info("attach.ended", run_id=begin.run_id, attempt=begin.attempt, reason=self._over)

    async def _relay(self, terminal: Terminal) -> None:
        """Send output until the program has ended and nothing is left, or the session is over."""
        signalled = time.monotonic()
        while not self._over:
            full = self._written - self._taken >= WINDOW_BYTES
            data = b"" if full else terminal.read()
            if data:
                self._written += len(data)
                await self._send(ProcessReply(output=data))
                continue
            if terminal.exit.done() and not full:
                return
            now = time.monotonic()
            if now - signalled > ALIVE_SECONDS:
                signalled = now
                await self._send(ProcessReply(alive=True))
            if now - self._last_received > SILENT_SECONDS:
                self._end("the orchestrator does not answer")
            if self._trainer_ended():
                self._end(ENDED)
            await self._wait()

    def _trainer_ended(self) -> bool:
        return self._attempt.trainer is None or self._attempt.trainer.exit is not None

    async def _reason(self, code: int) -> str:
        """Why the program has ended, when it was killed: with the last process of a sandbox all in it are."""
        for _ in range(KILLED_CHECKS if code == 128 + signal.SIGKILL else 0):
            if self._trainer_ended():
                break
            await asyncio.sleep(0.1)
        return self._over or (ENDED if self._trainer_ended() else "")

    async def _wait(self) -> None:
        """Until there is something to do."""
        self._wake.clear()
        if self._terminal is not None and self._written - self._taken < WINDOW_BYTES:
            self._terminal.listen(self._output_ready, lambda: self._end("the program does not read its keys"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._wake.wait()

    def _output_ready(self) -> None:
        # Once: a full window must not turn the loop.
        if self._terminal is not None:
            self._terminal.unlisten()
        self._wake.set()

    def _apply(self, terminal: Terminal, request: ProcessRequest) -> None:
        match request.WhichOneof("kind"):
            case "input":
                terminal.write(request.input)
            case "size":
                terminal.resize(request.size)
            case "taken":
                self._taken = max(self._taken, min(request.taken, self._written))
                self._wake.set()
            case _:
                self._end("detached")

    def _end(self, reason: str) -> None:
        self._over = self._over or reason
        self._wake.set()

    async def _send(self, reply: ProcessReply) -> None:
        self._sent += 1
        reply.worker_id, reply.sequence = self._worker_id, self._sent
        if not await self._send_reply(reply):
            self._end(LOST)
