"""Live frames for browsers: one NATS subscription per watched run, shared by all its viewers.

Every browser receives the newest frame of each slot that it requests. Frames that a browser is too slow for
are dropped here.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator

from google.protobuf.message import DecodeError

from runspine.domain.defaults import MAX_SLOTS
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.core_nats import subscribed, try_publish
from runspine.eventlog.subjects import control_subject, frames_subject
from runspine.services.dashboard.core.view_request import (
    BrowserRequest,
    combined_interest,
    pack_frame,
)
from runspine.services.dashboard.settings import DashboardSettings
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.live_pb2 import Control, Frame

# How often the combined interest of all viewers is published.
INTEREST_SECONDS = 1.0
# A page repeats its request every second; that of a hidden or hanging page expires.
REQUEST_TTL_SECONDS = 3.0
# How much earlier than due a frame may be passed on, as a share of the interval between two.
EARLY_SHARE = 0.3
NO_NATS = "this page has no connection to NATS: set RUNSPINE_NATS_URL, RUNSPINE_NATS_USER and _PASSWORD"


class BrowserViewer:
    """One browser that watches one run: its current request and the frames that wait for it."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.waiting: dict[int, bytes] = {}
        self._request: BrowserRequest | None = None
        self._expires = 0.0
        self._passed: dict[int, float] = {}

    def set_request(self, request: BrowserRequest | None) -> None:
        self._request, self._expires = request, time.monotonic() + REQUEST_TTL_SECONDS

    def request(self, now: float) -> BrowserRequest | None:
        return self._request if now < self._expires else None

    def offer(self, slot: int, message: bytes, now: float, fastest: float = 0.0) -> None:
        """Queue a frame if it is requested and due: another viewer may request a higher rate."""
        request = self.request(now)
        if request is None or not request.includes(slot):
            return
        if request.fps >= fastest or now - self._passed.get(slot, 0.0) >= (1 - EARLY_SHARE) / request.fps:
            self._passed[slot] = now
            self.waiting[slot] = message
            self.ready.set()

    def take(self) -> list[bytes]:
        """Remove and return the waiting frames: the newest of each slot, by slot."""
        taken, self.waiting = [message for _, message in sorted(self.waiting.items())], {}
        self.ready.clear()
        return taken


class WatchedRun:
    """One run with at least one viewer: its subscription, its newest frames, its viewers."""

    def __init__(self, link: NatsConnection, run_id: str) -> None:
        self._link, self._run_id = link, run_id
        # Unique per instance: when viewers return at once, the goodbye of the instance before must not count.
        self._viewer_id = f"page-{secrets.token_hex(8)}"
        self._viewers: set[BrowserViewer] = set()
        self.newest: dict[int, Frame] = {}
        self._changed = asyncio.Event()
        # The highest frame rate that any viewer requests.
        self._fastest = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def empty(self) -> bool:
        return not self._viewers

    def add(self, viewer: BrowserViewer) -> None:
        self._viewers.add(viewer)
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name=f"live-{self._run_id}")

    def set_request(self, viewer: BrowserViewer, request: BrowserRequest | None) -> None:
        """Update a viewer's request; one with new slots is offered the newest frames at once."""
        before = viewer.request(time.monotonic())
        viewer.set_request(request)
        if request is not None and (before is None or before.slots != request.slots):
            for slot, frame in self.newest.items():
                viewer.offer(slot, pack_frame(frame), time.monotonic())
        if request != before:
            self._changed.set()

    def remove(self, viewer: BrowserViewer) -> None:
        self._viewers.discard(viewer)
        self._changed.set()

    async def steer(self, control: Control) -> bool:
        """Send a person's input to the session; False when NATS did not accept it."""
        return await try_publish(self._link, control_subject(self._run_id), control.SerializeToString())

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)
            await self._publish_interest([])

    async def _watch(self) -> None:
        async with subscribed(self._link, frames_subject(self._run_id), self._receive):
            watched = False
            while True:
                now = time.monotonic()
                requests = [found for viewer in self._viewers if (found := viewer.request(now)) is not None]
                # Published once more after the last viewer has left, then not at all.
                if requests or watched:
                    await self._publish_interest(requests)
                watched = bool(requests)
                self._fastest = max((request.fps for request in requests), default=0.0)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(INTEREST_SECONDS):
                        await self._changed.wait()
                self._changed.clear()

    async def _publish_interest(self, requests: list[BrowserRequest]) -> None:
        control = Control(interest=combined_interest(self._viewer_id, requests))
        await try_publish(self._link, control_subject(self._run_id), control.SerializeToString())

    def _receive(self, payload: bytes) -> None:
        try:
            frame = Frame.FromString(payload)
        except DecodeError:
            return
        if frame.slot >= MAX_SLOTS:
            return
        if any(frame.attempt > kept.attempt for kept in self.newest.values()):
            # A new attempt: frames of the one before are obsolete.
            self.newest.clear()
        self.newest[frame.slot] = frame
        message, now = pack_frame(frame), time.monotonic()
        for viewer in self._viewers:
            viewer.offer(frame.slot, message, now, self._fastest)


class LiveHub:
    """The watched runs and the one NATS connection that they share."""

    def __init__(self, settings: DashboardSettings) -> None:
        self._account = NatsAccount(
            url=settings.nats_url,
            user=settings.nats_user,
            password=settings.nats_password.get_secret_value(),
            inbox=f"_INBOX_{settings.nats_user or 'dashboard'}",
        )
        self._link: NatsConnection | None = None
        self._runs: dict[str, WatchedRun] = {}

    @property
    def trouble(self) -> str:
        """Why there are no live frames; empty when connected. The rest of the page does not need NATS."""
        if not self._account.url:
            return NO_NATS
        if self._link is None or not self._link.connected:
            return f"NATS at {self._account.url} cannot be reached"
        return ""

    async def run(self) -> None:
        """Hold the NATS connection until cancelled."""
        if self._account.url:
            link = NatsConnection(self._account, "dashboard")
            async with link:
                self._link = link
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    @contextlib.asynccontextmanager
    async def watch(self, run_id: str) -> AsyncIterator[tuple[WatchedRun, BrowserViewer]]:
        """Add a viewer to a run. Requires a connection: check `trouble` first."""
        assert self._link is not None
        run = self._runs.setdefault(run_id, WatchedRun(self._link, run_id))
        viewer = BrowserViewer()
        run.add(viewer)
        try:
            yield run, viewer
        finally:
            run.remove(viewer)
            if run.empty:
                del self._runs[run_id]
                await run.close()
