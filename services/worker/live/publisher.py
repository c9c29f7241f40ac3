"""Publishes live frames of one attempt: viewers' requests in, frames out, nothing stored."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Self

import structlog
from google.protobuf.message import DecodeError, Message

from runspine.domain.defaults import DEFAULT_WIDTH
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import max_payload, subscribed, try_publish
from runspine.eventlog.subjects import control_subject, frames_subject
from runspine.play.actor_names import checkpoint_of
from runspine.services.worker.live.frames import NotAFrameError, RawFrame, encode_frame, parse_header
from runspine.services.worker.live.view_socket import ViewSocket
from runspine.services.worker.live.viewers import ViewerRequest, ViewerRequests
from runspine.services.worker.metrics import FRAMES, FRAMES_DROPPED, VIEWED_RUNS
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.live_pb2 import Control, Frame

log = structlog.get_logger()

MAX_PROCESSES = 128
MAX_ACTOR_CHOICES = 16
# Bytes of all frames that wait to be encoded.
MAX_WAITING_BYTES = 64 << 20
# Of a header line; the pixels after it are read by their number.
MAX_LINE_BYTES = 1 << 18
# A trainer's process that does not read gets no more messages until it does.
MAX_UNREAD_BYTES = 1 << 16
GATHER_SECONDS = 0.003
# Reserved in a frame's message for everything but the picture.
OVERHEAD_BYTES = 16 << 10

# Turns a choice of actor into what the trainer receives: a policy's checkpoint is fetched first.
PrepareActor = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def _unchanged(choice: dict[str, Any]) -> dict[str, Any]:
    return choice


class FramePublisher:
    """Serves the view socket at `path` and publishes frames while it is entered."""

    def __init__(
        self,
        link: NatsConnection,
        run_id: str,
        attempt: int,
        view_socket: ViewSocket,
        progress: Callable[[], Progress],
        prepare_actor: PrepareActor = _unchanged,
    ) -> None:
        self.path = view_socket.path
        self._link = link
        self._run_id, self._attempt = run_id, attempt
        self._socket = view_socket
        self._progress = progress
        self._prepare_actor = prepare_actor
        self._viewers = ViewerRequests()
        self._request: ViewerRequest | None = None
        self._processes: set[asyncio.StreamWriter] = set()
        self._fetching = 0
        self._choices: asyncio.Queue[Control] = asyncio.Queue(MAX_ACTOR_CHOICES)
        self._waiting: dict[int, RawFrame] = {}
        # The newest of each slot, for viewers that join while nothing changes.
        self._newest: dict[int, Frame] = {}
        self._resend = False
        self._numbers: dict[int, int] = {}
        self._slots = 0
        self._changed, self._ready = asyncio.Event(), asyncio.Event()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self._socket.close)
        try:
            await self._socket.open(self._serve, MAX_LINE_BYTES)
        except OSError as error:
            # The trainer does not find it, and trains without viewers.
            log.warning("viewing.no_socket", run_id=self._run_id, path=str(self.path), error=str(error))
        loops = [self._send_requests(), self._send_choices(), self._publish()]
        tasks = [asyncio.create_task(loop, name=f"viewing-{self._run_id}") for loop in loops]
        self._stack.push_async_callback(cancel_and_wait, *tasks)
        await self._stack.enter_async_context(
            subscribed(self._link, control_subject(self._run_id), self._receive)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        self._set_request(None)
        for process in self._processes:
            process.close()

    def _receive(self, payload: bytes) -> None:
        """Handle a message of a viewer."""
        try:
            control = Control.FromString(payload)
        except DecodeError:
            return
        if control.HasField("interest"):
            self._resend = self._viewers.update(control.interest, time.monotonic()) or self._resend
            self._changed.set()
        elif control.HasField("actor") and (checkpoint_of(control.actor.actor) or self._fetching):
            # An actor chosen while a policy is being fetched comes after it.
            with contextlib.suppress(asyncio.QueueFull):
                self._choices.put_nowait(control)
                self._fetching += 1
        elif kind := control.WhichOneof("kind"):
            # Keys do not wait for a checkpoint that is being fetched.
            self._send_all({kind: _fields(getattr(control, kind))})

    async def _send_requests(self) -> None:
        """Send the viewers' request to the trainer's processes whenever it changes or expires."""
        while True:
            now = time.monotonic()
            self._set_request(self._viewers.request(now))
            if self._resend:
                self._ready.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._viewers.seconds_to_expiry(now)):
                    await self._changed.wait()
            self._changed.clear()

    def _set_request(self, request: ViewerRequest | None) -> None:
        if request == self._request:
            return
        VIEWED_RUNS.inc((request is not None) - (self._request is not None))
        self._request = request
        self._send_all({"look": request.as_json() if request else None})

    async def _send_choices(self) -> None:
        """Send choices of actors in the order in which they were made."""
        while True:
            control = await self._choices.get()
            self._send_all({"actor": await self._prepare_actor(_fields(control.actor))})
            self._fetching -= 1

    def _send_all(self, message: dict[str, Any]) -> None:
        for process in self._processes:
            self._send(process, message)

    def _send(self, process: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        if process.transport.get_write_buffer_size() <= MAX_UNREAD_BYTES:
            process.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one of the trainer's processes until it disconnects."""
        if len(self._processes) >= MAX_PROCESSES:
            writer.close()
            return
        self._processes.add(writer)
        try:
            if self._request:
                self._send(writer, {"look": self._request.as_json()})
            while line := await reader.readline():
                frame = parse_header(json.loads(line))
                self._take(replace(frame, data=await reader.readexactly(frame.size)))
        except (NotAFrameError, ValueError) as error:
            log.warning("viewing.not_a_frame", run_id=self._run_id, error=str(error)[:200])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._processes.discard(writer)
            writer.close()

    def _take(self, frame: RawFrame) -> None:
        self._slots = max(self._slots, frame.slots, frame.slot + 1)
        if frame.slot in self._waiting:
            FRAMES_DROPPED.inc()
            del self._waiting[frame.slot]
        if sum(waiting.size for waiting in self._waiting.values()) + frame.size > MAX_WAITING_BYTES:
            FRAMES_DROPPED.inc()
            return
        self._waiting[frame.slot] = frame
        self._ready.set()

    async def _publish(self) -> None:
        while True:
            await self._ready.wait()
            # Frames of several slots arrive one after the other: they are encoded together.
            await asyncio.sleep(GATHER_SECONDS)
            self._ready.clear()
            if self._resend:
                self._resend = False
                for kept in self._newest.values():
                    await try_publish(
                        self._link, frames_subject(self._run_id, kept.slot), kept.SerializeToString()
                    )
            taken, self._waiting = list(self._waiting.values()), {}
            for frame in await asyncio.to_thread(self._encode, taken) if taken else ():
                self._newest[frame.slot] = frame
                if await try_publish(
                    self._link, frames_subject(self._run_id, frame.slot), frame.SerializeToString()
                ):
                    FRAMES.inc()
                else:
                    FRAMES_DROPPED.inc()

    def _encode(self, taken: list[RawFrame]) -> list[Frame]:
        """Encode frames with the counts of the whole run, unknown to its processes. Runs in a thread."""
        width = self._request.width if self._request else DEFAULT_WIDTH
        max_bytes = max_payload(self._link) - OVERHEAD_BYTES
        reached, done = self._progress(), []
        for frame in taken:
            number = self._numbers[frame.slot] = self._numbers.get(frame.slot, 0) + 1
            frame.hud.step = max(frame.hud.step, reached.step)
            frame.hud.steps_per_second = frame.hud.steps_per_second or reached.steps_per_second
            frame = replace(frame, slots=self._slots)
            done.append(encode_frame(frame, self._run_id, self._attempt, number, width, max_bytes))
        return done


def _fields(message: Message) -> dict[str, Any]:
    """All fields of a message, with defaults for those without presence."""
    fields = message.DESCRIPTOR.fields
    return {
        field.name: getattr(message, field.name)
        for field in fields
        if not field.has_presence or message.HasField(field.name)
    }
