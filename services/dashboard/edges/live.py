"""Frames of runs for browsers: one subscription for each run that is looked at, however many look.

Every browser gets the newest frame of each slot that it can take; what it has no time for is dropped here.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator

import structlog
from google.protobuf.message import DecodeError

from runspine.log.link import Account, Link
from runspine.log.live import listening, say
from runspine.log.subjects import control_subject, frames_subject
from runspine.tasks import put_down
from runspine.wire.v1.live_pb2 import Control, Frame
from services.dashboard.core.wishes import MOST_SLOTS, Wish, packed, together
from services.dashboard.settings import DashboardSettings

log = structlog.get_logger()

SAY_EVERY = 1.0
# A page says every second what it wants; a hidden or hanging one falls silent.
PAGE_SECONDS = 3.0
# How much earlier than its time a frame may come to be passed on, as a part of the time between two.
EARLY = 0.3
NO_NATS = "this page has no connection to NATS: set RUNSPINE_NATS_URL, RUNSPINE_NATS_USER and _PASSWORD"


class Seat:
    """One browser in front of one run."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.waiting: dict[int, bytes] = {}
        self._wish: Wish | None = None
        self._until = 0.0
        self._passed: dict[int, float] = {}

    def want(self, wish: Wish | None) -> None:
        self._wish, self._until = wish, time.monotonic() + PAGE_SECONDS

    def wish(self, now: float) -> Wish | None:
        return self._wish if now < self._until else None

    def offer(self, slot: int, message: bytes, now: float, fastest: float = 0.0) -> None:
        """Take it if it is wanted, and if it is time for it: another page may want more of them."""
        wish = self.wish(now)
        if wish is None or not wish.includes(slot):
            return
        if wish.fps >= fastest or now - self._passed.get(slot, 0.0) >= (1 - EARLY) / wish.fps:
            self._passed[slot] = now
            self.waiting[slot] = message
            self.ready.set()

    def take(self) -> list[bytes]:
        """What waits for this browser, the newest of each slot."""
        taken, self.waiting = [message for _, message in sorted(self.waiting.items())], {}
        self.ready.clear()
        return taken


class Room:
    """One run that is looked at."""

    def __init__(self, link: Link, run_id: str) -> None:
        self._link, self._run_id = link, run_id
        # A name of its own: when people come back at once, the goodbye of the room before must not count.
        self._viewer = f"page-{secrets.token_hex(8)}"
        self._seats: set[Seat] = set()
        self.newest: dict[int, Frame] = {}
        self._changed = asyncio.Event()
        # The most that any page wants.
        self._fastest = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def empty(self) -> bool:
        return not self._seats

    def enter(self, seat: Seat) -> None:
        self._seats.add(seat)
        if self._task is None:
            self._task = asyncio.create_task(self._look(), name=f"live-{self._run_id}")

    def want(self, seat: Seat, wish: Wish | None) -> None:
        """A page says what it wants; one that has just come is shown what there is."""
        before = seat.wish(time.monotonic())
        seat.want(wish)
        if wish is not None and (before is None or before.slots != wish.slots):
            for slot, frame in self.newest.items():
                seat.offer(slot, packed(frame), time.monotonic())
        if wish != before:
            self._changed.set()

    def leave(self, seat: Seat) -> None:
        self._seats.discard(seat)
        self._changed.set()

    async def steer(self, control: Control) -> bool:
        """Pass on what a person says to the session; whether there was a way."""
        return await say(self._link, control_subject(self._run_id), control.SerializeToString())

    async def close(self) -> None:
        if self._task is not None:
            await put_down(self._task)
            await self._say([])

    async def _look(self) -> None:
        async with listening(self._link, frames_subject(self._run_id), self._take):
            looked = False
            while True:
                now = time.monotonic()
                wishes = [wish for seat in self._seats if (wish := seat.wish(now)) is not None]
                # Said once more when the last one has gone, then not at all.
                if wishes or looked:
                    await self._say(wishes)
                looked = bool(wishes)
                self._fastest = max((wish.fps for wish in wishes), default=0.0)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SAY_EVERY):
                        await self._changed.wait()
                self._changed.clear()

    async def _say(self, wishes: list[Wish]) -> None:
        control = Control(interest=together(self._viewer, wishes))
        await say(self._link, control_subject(self._run_id), control.SerializeToString())

    def _take(self, payload: bytes) -> None:
        try:
            frame = Frame.FromString(payload)
        except DecodeError:
            return
        if frame.slot >= MOST_SLOTS:
            return
        if any(frame.attempt > kept.attempt for kept in self.newest.values()):
            # Another attempt: what is left of the one before is no longer true.
            self.newest.clear()
        self.newest[frame.slot] = frame
        message, now = packed(frame), time.monotonic()
        for seat in self._seats:
            seat.offer(frame.slot, message, now, self._fastest)


class Hub:
    """Where browsers find the run that they look at."""

    def __init__(self, settings: DashboardSettings) -> None:
        self._account = Account(
            url=settings.nats_url,
            user=settings.nats_user,
            password=settings.nats_password.get_secret_value(),
            inbox=f"_INBOX_{settings.nats_user or 'dashboard'}",
        )
        self._link: Link | None = None
        self._rooms: dict[str, Room] = {}

    @property
    def trouble(self) -> str:
        """Why nothing can be seen; empty when all is well. The rest of the page does not need NATS."""
        if not self._account.url:
            return NO_NATS
        if self._link is None or not self._link.connected:
            return f"NATS at {self._account.url} cannot be reached"
        return ""

    async def run(self) -> None:
        """Keep a connection, until cancelled."""
        if self._account.url:
            link = Link(self._account, "dashboard")
            async with link:
                self._link = link
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    @contextlib.asynccontextmanager
    async def seat(self, run_id: str) -> AsyncIterator[tuple[Room, Seat]]:
        """A place in front of a run. There is a connection: `trouble` says so."""
        assert self._link is not None
        room = self._rooms.setdefault(run_id, Room(self._link, run_id))
        seat = Seat()
        room.enter(seat)
        try:
            yield room, seat
        finally:
            room.leave(seat)
            if room.empty:
                del self._rooms[run_id]
                await room.close()
