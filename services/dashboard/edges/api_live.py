"""A run as it happens, over a web socket: frames to the page, its wishes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import FileResponse, Response

from runspine.errors import NotFound, RunspineError
from runspine.tasks import put_down
from runspine.video.clip import NoVideo
from runspine.wire.v1.trainer_pb2 import GetRequest
from services.dashboard.core.steering import control_of
from services.dashboard.core.wishes import Wish, wish_of
from services.dashboard.edges.backend import Backend
from services.dashboard.edges.live import Hub, Room, Seat
from services.dashboard.edges.login import COOKIE, Doors, Person
from services.dashboard.edges.recording import MOST_SECONDS, Clips, Recording

# Rounds of frames that a page has not yet said it has seen.
MOST_UNSEEN = 3
TOGETHER = 0.01
# A page's words are short.
MOST_WORDS = 4096
# Codes of a closed socket, as the page explains them.
STRANGER, UNKNOWN, NO_WAY, NONSENSE = 4401, 4404, 4503, 4400


def add_live_api(app: FastAPI, backend: Backend, doors: Doors, hub: Hub, clips: Clips) -> None:
    @app.websocket("/api/runs/{run_id}/live")
    async def live(socket: WebSocket, run_id: str) -> None:
        await socket.accept()
        refused = await _refused(socket, run_id, backend, doors, hub)
        if refused is not None:
            await socket.close(*refused)
            return
        person = doors.person(socket.cookies.get(COOKIE, ""))
        async with hub.seat(run_id) as (room, seat):
            await Page(socket, room, seat, clips, person).serve()

    @app.get("/api/clips/{name}")
    async def clip(name: str) -> Response:
        path = clips.path(name)
        if path is None:
            raise NotFound("this clip is gone: only the newest are kept, until the page's server restarts")
        return FileResponse(path, media_type="video/mp4", filename=f"runspine-{name}.mp4")


async def _refused(
    socket: WebSocket, run_id: str, backend: Backend, doors: Doors, hub: Hub
) -> tuple[int, str] | None:
    """Why this browser may not look. A web socket passes by the guard of the other addresses."""
    token = socket.cookies.get(COOKIE, "")
    origin = urlsplit(socket.headers.get("origin", "")).netloc
    if doors.person(token) is None or (origin and origin != socket.headers.get("host")):
        return STRANGER, "log in first"
    if hub.trouble:
        return NO_WAY, hub.trouble[:120]
    try:
        await backend.seen_by(token).ask("trainer", "Get", GetRequest(run_id=run_id))
    except RunspineError as error:
        return UNKNOWN, str(error)[:120]
    return None


class Page:
    """One open page: its words are heard while its frames are sent."""

    def __init__(
        self, socket: WebSocket, room: Room, seat: Seat, clips: Clips, person: Person | None
    ) -> None:
        self._socket, self._room, self._seat, self._clips = socket, room, seat, clips
        self._person = person
        self._wish: Wish | None = None
        self._recording: Recording | None = None
        self._sent, self._seen = 0, 0
        self._caught_up = asyncio.Event()

    async def serve(self) -> None:
        sending = asyncio.create_task(self._send())
        try:
            with contextlib.suppress(WebSocketDisconnect):
                while not sending.done():
                    await self._hear(await self._socket.receive_text())
        except ValueError as error:
            with contextlib.suppress(RuntimeError):
                await self._socket.close(NONSENSE, str(error)[:120])
        finally:
            await put_down(sending)
            if self._recording is not None:
                await self._recording.drop()

    async def _hear(self, text: str) -> None:
        """Raises ValueError on anything that our page does not say."""
        said = json.loads(text) if len(text) <= MOST_WORDS else None
        if not isinstance(said, dict):
            raise ValueError("not a page's word")
        if "seen" in said:
            self._seen = int(said["seen"])
            self._caught_up.set()
        if "look" in said:
            self._wish = wish_of(said["look"]) if said["look"] is not None else None
            self._room.want(self._seat, self._wish)
            await self._end_if_over()
        if "record" in said:
            await self._record(bool(said["record"]))
        if "steer" in said:
            await self._steer(said["steer"])

    async def _steer(self, said: Any) -> None:
        """Whoever may start runs may steer one."""
        if self._person is None or not self._person.may_run:
            await self._tell({"refused": "this token may only look: log in with one of scope run to steer"})
        elif not await self._room.steer(control_of(said, self._person.name)):
            await self._tell({"refused": "NATS does not take it now: press again"})

    async def _send(self) -> None:
        """The newest of each slot, round by round, as fast as the page says that it has seen them."""
        # A page that has gone is noticed by whoever listens to it.
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                await self._seat.ready.wait()
                # The slots of one moment come one after the other: they are shown together.
                await asyncio.sleep(TOGETHER)
                while self._sent - self._seen >= MOST_UNSEEN:
                    self._caught_up.clear()
                    await self._caught_up.wait()
                for message in self._seat.take():
                    await self._socket.send_bytes(message)
                self._sent += 1
                await self._tell({"round": self._sent})

    async def _record(self, on: bool) -> None:
        if on and self._recording is None and self._wish is not None:
            path = await asyncio.to_thread(self._clips.new)
            self._recording = Recording(self._room, self._wish, path)
            self._recording.start()
            await self._tell({"recording": {"most": MOST_SECONDS}})
        elif not on and self._recording is not None:
            recording, self._recording = self._recording, None
            try:
                clip = await recording.stop()
            except NoVideo as error:
                await self._tell({"clip": {"error": str(error)}})
                return
            about = {"url": f"/api/clips/{clip.path.stem}", "seconds": recording.seconds}
            await self._tell({"clip": {**about, "width": clip.width, "height": clip.height}})

    async def _end_if_over(self) -> None:
        if self._recording is not None and self._recording.over:
            await self._record(False)

    async def _tell(self, said: dict[str, Any]) -> None:
        await self._socket.send_text(json.dumps(said))
