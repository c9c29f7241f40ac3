"""What is seen of one attempt while it runs: viewers' wishes go in, frames come out, nothing is kept."""

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

from runspine.log.link import Link
from runspine.log.live import listening, most_bytes, say
from runspine.log.subjects import control_subject, frames_subject
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.live_pb2 import Control, Frame
from services.worker.interests import DEFAULT_WIDTH, Interests, Wish
from services.worker.metrics import FRAMES, FRAMES_DROPPED, LOOKED_AT
from services.worker.picture import NotAFrame, Shown, framed, shown
from services.worker.play.casting import FETCHED
from services.worker.view_socket import Place

log = structlog.get_logger()

MOST_PROCESSES = 128
MOST_CHOICES = 16
# Of frames that wait to be encoded, in all.
MOST_WAITING = 64 << 20
# A header line; the pixels that follow it are read whatever their number.
LINE_BYTES = 1 << 18
# A trainer's process that does not read what it is told is told nothing more until it does.
MOST_UNREAD = 1 << 16
TOGETHER = 0.003
# Of a frame's message, for what stands beside the picture.
BESIDE_BYTES = 16 << 10

# What to tell the trainer instead of a choice of actor: a policy's checkpoint is fetched here, before
# the trainer hears of it.
Before = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def _as_it_is(said: dict[str, Any]) -> dict[str, Any]:
    return said


class Viewing:
    """From `async with` on, trainers find the socket at `path`."""

    def __init__(
        self,
        link: Link,
        run_id: str,
        attempt: int,
        place: Place,
        progress: Callable[[], Progress],
        before: Before = _as_it_is,
    ) -> None:
        self.path = place.path
        self._link = link
        self._run_id, self._attempt = run_id, attempt
        self._place = place
        self._progress = progress
        self._before = before
        self._interests = Interests()
        self._wish: Wish | None = None
        self._processes: set[asyncio.StreamWriter] = set()
        self._fetching = 0
        self._choices: asyncio.Queue[Control] = asyncio.Queue(MOST_CHOICES)
        self._waiting: dict[int, Shown] = {}
        # The newest of each slot, for whoever begins to look when nothing moves.
        self._newest: dict[int, Frame] = {}
        self._again = False
        self._numbers: dict[int, int] = {}
        self._slots = 0
        self._changed, self._ready = asyncio.Event(), asyncio.Event()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self._place.close)
        try:
            await self._place.open(self._serve, LINE_BYTES)
        except OSError as error:
            # The trainer looks for it in vain, and trains unseen.
            log.warning("viewing.no_socket", run_id=self._run_id, path=str(self.path), error=str(error))
        loops = [self._tell_wishes(), self._pass_choices(), self._publish()]
        tasks = [asyncio.create_task(loop, name=f"viewing-{self._run_id}") for loop in loops]
        self._stack.push_async_callback(put_down, *tasks)
        await self._stack.enter_async_context(
            listening(self._link, control_subject(self._run_id), self._hear)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        self._set_wish(None)
        for process in self._processes:
            process.close()

    def _hear(self, payload: bytes) -> None:
        """A viewer's word."""
        try:
            said = Control.FromString(payload)
        except DecodeError:
            return
        if said.HasField("interest"):
            self._again = self._interests.hear(said.interest, time.monotonic()) or self._again
            self._changed.set()
        elif said.HasField("actor") and (said.actor.actor.startswith(FETCHED) or self._fetching):
            # Whoever is chosen while a policy is on its way comes after it.
            with contextlib.suppress(asyncio.QueueFull):
                self._choices.put_nowait(said)
                self._fetching += 1
        elif kind := said.WhichOneof("kind"):
            # Keys do not wait behind a checkpoint that is on its way.
            self._tell_all({kind: _plain(getattr(said, kind))})

    async def _tell_wishes(self) -> None:
        """Tell the trainer's processes what is wanted, as soon as that changes or is forgotten."""
        while True:
            now = time.monotonic()
            self._set_wish(self._interests.wish(now))
            if self._again:
                self._ready.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interests.wait(now)):
                    await self._changed.wait()
            self._changed.clear()

    def _set_wish(self, wish: Wish | None) -> None:
        if wish == self._wish:
            return
        LOOKED_AT.inc((wish is not None) - (self._wish is not None))
        self._wish = wish
        self._tell_all({"look": wish.as_json() if wish else None})

    async def _pass_choices(self) -> None:
        """Who shall act, in the order in which it was said."""
        while True:
            control = await self._choices.get()
            self._tell_all({"actor": await self._before(_plain(control.actor))})
            self._fetching -= 1

    def _tell_all(self, said: dict[str, Any]) -> None:
        for process in self._processes:
            self._tell(process, said)

    def _tell(self, process: asyncio.StreamWriter, said: dict[str, Any]) -> None:
        if process.transport.get_write_buffer_size() <= MOST_UNREAD:
            process.write(json.dumps(said, separators=(",", ":")).encode() + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One of the trainer's processes, from its first step to its end."""
        if len(self._processes) >= MOST_PROCESSES:
            writer.close()
            return
        self._processes.add(writer)
        try:
            if self._wish:
                self._tell(writer, {"look": self._wish.as_json()})
            while line := await reader.readline():
                frame = shown(json.loads(line))
                self._take(replace(frame, data=await reader.readexactly(frame.size)))
        except (NotAFrame, ValueError) as error:
            log.warning("viewing.not_a_frame", run_id=self._run_id, error=str(error)[:200])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._processes.discard(writer)
            writer.close()

    def _take(self, frame: Shown) -> None:
        self._slots = max(self._slots, frame.slots, frame.slot + 1)
        if frame.slot in self._waiting:
            FRAMES_DROPPED.inc()
            del self._waiting[frame.slot]
        if sum(waiting.size for waiting in self._waiting.values()) + frame.size > MOST_WAITING:
            FRAMES_DROPPED.inc()
            return
        self._waiting[frame.slot] = frame
        self._ready.set()

    async def _publish(self) -> None:
        while True:
            await self._ready.wait()
            # The slots of one moment come one after the other: they are encoded together.
            await asyncio.sleep(TOGETHER)
            self._ready.clear()
            if self._again:
                self._again = False
                for kept in self._newest.values():
                    await say(self._link, frames_subject(self._run_id, kept.slot), kept.SerializeToString())
            taken, self._waiting = list(self._waiting.values()), {}
            for frame in await asyncio.to_thread(self._encode, taken) if taken else ():
                self._newest[frame.slot] = frame
                if await say(self._link, frames_subject(self._run_id, frame.slot), frame.SerializeToString()):
                    FRAMES.inc()
                else:
                    FRAMES_DROPPED.inc()

    def _encode(self, taken: list[Shown]) -> list[Frame]:
        """In a thread. The counts of the whole run are known here, not in each of its processes."""
        width = self._wish.width if self._wish else DEFAULT_WIDTH
        most = most_bytes(self._link) - BESIDE_BYTES
        reached, done = self._progress(), []
        for frame in taken:
            number = self._numbers[frame.slot] = self._numbers.get(frame.slot, 0) + 1
            frame.hud.step = max(frame.hud.step, reached.step)
            frame.hud.steps_per_second = frame.hud.steps_per_second or reached.steps_per_second
            frame = replace(frame, slots=self._slots)
            done.append(framed(frame, self._run_id, self._attempt, number, width, most))
        return done


def _plain(message: Message) -> dict[str, Any]:
    """Every field, with its default where that was meant; numbers as numbers."""
    fields = message.DESCRIPTOR.fields
    return {
        field.name: getattr(message, field.name)
        for field in fields
        if not field.has_presence or message.HasField(field.name)
    }
