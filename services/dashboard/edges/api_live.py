"""Live view of a run over a web socket: frames to the browser; requests, recording and steering back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import FileResponse, Response

from runspine.errors import RunNotFoundError, RunspineError
from runspine.services.dashboard.core.steering import parse_control
from runspine.services.dashboard.core.view_request import BrowserRequest, parse_browser_request
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.clip_recording import MAX_CLIP_SECONDS, ClipRecording, RecordedClips
from runspine.services.dashboard.edges.live_hub import BrowserViewer, LiveHub, WatchedRun
from runspine.services.dashboard.edges.login.person import Person
from runspine.services.dashboard.edges.login.session import session_of
from runspine.tasks import cancel_and_wait
from runspine.video.clip import VideoError
from runspine.wire.v1.trainer_pb2 import GetRequest

# Rounds of frames that a browser has not acknowledged yet.
MAX_UNSEEN_ROUNDS = 3
# Frames of several slots that arrive within this time are sent as one round.
GATHER_SECONDS = 0.01
MAX_MESSAGE_LENGTH = 4096
# Close codes of the web socket; live.js and play.js know them.
RUN_NOT_FOUND, UNAVAILABLE, BAD_MESSAGE = 4404, 4503, 4400


def add_live_api(app: FastAPI, backend: Backend, hub: LiveHub, clips: RecordedClips) -> None:
    @app.websocket("/api/runs/{run_id}/live")
    async def live(socket: WebSocket, run_id: str) -> None:
        await socket.accept()
        refused = await _refusal(socket, run_id, backend, hub)
        if refused is not None:
            await socket.close(*refused)
            return
        person = session_of(socket.scope).person
        async with hub.watch(run_id) as (run, viewer):
            await LiveConnection(socket, run, viewer, clips, person).serve()

    @app.get("/api/clips/{name}")
    async def clip(name: str) -> Response:
        path = clips.path(name)
        if path is None:
            raise RunNotFoundError(
                "this clip no longer exists: only the newest are kept, until the dashboard restarts"
            )
        return FileResponse(path, media_type="video/mp4", filename=f"runspine-{name}.mp4")


async def _refusal(socket: WebSocket, run_id: str, backend: Backend, hub: LiveHub) -> tuple[int, str] | None:
    """Close code and reason when this browser cannot watch. The guard has checked its session."""
    if hub.trouble:
        return UNAVAILABLE, hub.trouble[:120]
    try:
        await backend.access_of(socket.scope).call("trainer", "Get", GetRequest(run_id=run_id))
    except RunspineError as error:
        return RUN_NOT_FOUND, str(error)[:120]
    return None


class LiveConnection:
    """The web socket of one browser: reads its messages while frames are sent."""

    def __init__(
        self,
        socket: WebSocket,
        run: WatchedRun,
        viewer: BrowserViewer,
        clips: RecordedClips,
        person: Person,
    ) -> None:
        self._socket, self._run, self._viewer, self._clips = socket, run, viewer, clips
        self._person = person
        self._request: BrowserRequest | None = None
        self._recording: ClipRecording | None = None
        self._sent, self._seen = 0, 0
        self._caught_up = asyncio.Event()

    async def serve(self) -> None:
        sending = asyncio.create_task(self._send_frames())
        try:
            with contextlib.suppress(WebSocketDisconnect):
                while not sending.done():
                    await self._receive(await self._socket.receive_text())
        except ValueError as error:
            with contextlib.suppress(RuntimeError):
                await self._socket.close(BAD_MESSAGE, str(error)[:120])
        finally:
            await cancel_and_wait(sending)
            if self._recording is not None:
                await self._recording.drop()

    async def _receive(self, text: str) -> None:
        """Raises ValueError when the message is none that the page sends."""
        message = json.loads(text) if len(text) <= MAX_MESSAGE_LENGTH else None
        if not isinstance(message, dict):
            raise ValueError("not a message of the page")
        if "seen" in message:
            self._seen = int(message["seen"])
            self._caught_up.set()
        if "look" in message:
            wanted = message["look"]
            self._request = parse_browser_request(wanted) if wanted is not None else None
            self._run.set_request(self._viewer, self._request)
            await self._stop_if_over()
        if "record" in message:
            await self._record(bool(message["record"]))
        if "steer" in message:
            await self._steer(message["steer"])

    async def _steer(self, message: Any) -> None:
        """Steering requires the scope that starts runs."""
        if not self._person.may_run:
            await self._send({"refused": "this token is read-only: log in with one of scope run to steer"})
        elif not await self._run.steer(parse_control(message, self._person.name)):
            await self._send({"refused": "NATS does not accept input now: press again"})

    async def _send_frames(self) -> None:
        """Send the newest frame of each slot in rounds, as fast as the browser acknowledges them."""
        # A closed socket is noticed by the reader of its messages.
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                await self._viewer.ready.wait()
                # Frames of one moment arrive slot by slot and are shown together.
                await asyncio.sleep(GATHER_SECONDS)
                while self._sent - self._seen >= MAX_UNSEEN_ROUNDS:
                    self._caught_up.clear()
                    await self._caught_up.wait()
                for message in self._viewer.take():
                    await self._socket.send_bytes(message)
                self._sent += 1
                await self._send({"round": self._sent})

    async def _record(self, on: bool) -> None:
        if on and self._recording is None and self._request is not None:
            path = await asyncio.to_thread(self._clips.new)
            self._recording = ClipRecording(self._run, self._request, path)
            self._recording.start()
            await self._send({"recording": {"most": MAX_CLIP_SECONDS}})
        elif not on and self._recording is not None:
            recording, self._recording = self._recording, None
            try:
                clip = await recording.stop()
            except VideoError as error:
                await self._send({"clip": {"error": str(error)}})
                return
            about = {"url": f"/api/clips/{clip.path.stem}", "seconds": recording.seconds}
            await self._send({"clip": {**about, "width": clip.width, "height": clip.height}})

    async def _stop_if_over(self) -> None:
        if self._recording is not None and self._recording.over:
            await self._record(False)

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send_text(json.dumps(message))
