"""Recordings of a live view as video clips, limited in length and number."""

from __future__ import annotations

import asyncio
import contextlib
import io
import queue
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from runspine.services.dashboard.core.frame_grid import FrameGrid, caption
from runspine.services.dashboard.core.view_request import BrowserRequest
from runspine.services.dashboard.edges.live_hub import WatchedRun
from runspine.tasks import cancel_and_wait
from runspine.video.clip import Clip, VideoError
from runspine.video.clip import Frame as Picture
from runspine.video.timed import encode_timed
from runspine.wire.v1.live_pb2 import Frame

# Seconds since the start of the recording, and the picture shown then.
TimedPicture = tuple[float, Picture]
MAX_CLIP_SECONDS = 120
MAX_CLIP_FPS = 15
MAX_CLIPS = 20
# Frames queued for the encoder; when it falls behind, frames are dropped.
MAX_QUEUED_FRAMES = 8


class RecordedClips:
    """The newest recorded clips. A cache: emptied when the dashboard starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path | None:
        """The file of a clip, if it exists; names hold nothing but letters and digits."""
        path = self._folder / f"{name}.mp4"
        return path if name.isalnum() and path.is_file() else None

    def new(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = sorted(self._folder.glob("*.mp4"), key=lambda path: path.stat().st_mtime)
        for old in kept[: max(0, len(kept) - MAX_CLIPS + 1)]:
            old.unlink(missing_ok=True)
        return self._folder / f"{secrets.token_hex(8)}.mp4"


@dataclass
class ClipRecording:
    """One recording, from `start` to `stop` or to MAX_CLIP_SECONDS."""

    run: WatchedRun
    request: BrowserRequest
    path: Path
    began: float = field(default_factory=time.monotonic)
    _frames: queue.Queue[tuple[float, Picture] | None] = field(
        default_factory=lambda: queue.Queue(MAX_QUEUED_FRAMES)
    )
    _task: asyncio.Task[None] | None = None
    _clip: asyncio.Task[Clip] | None = None

    @property
    def fps(self) -> int:
        return max(1, min(MAX_CLIP_FPS, round(self.request.fps)))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    def start(self) -> None:
        self._task = asyncio.create_task(self._capture(), name=f"recording-{self.path.stem}")
        self._clip = asyncio.create_task(
            asyncio.to_thread(encode_timed, self._queued(), self.path, fps=self.fps)
        )

    async def stop(self) -> Clip:
        """Finish encoding and return the clip. Raises VideoError."""
        assert self._task is not None
        assert self._clip is not None
        await cancel_and_wait(self._task)
        while not self._clip.done():
            with contextlib.suppress(queue.Full):
                self._frames.put_nowait(None)
                break
            await asyncio.sleep(0.01)
        return await self._clip

    async def drop(self) -> None:
        with contextlib.suppress(VideoError):
            await self.stop()
        self.path.unlink(missing_ok=True)

    def _queued(self) -> Iterator[TimedPicture]:
        while (frame := self._frames.get()) is not None:
            yield frame

    async def _capture(self) -> None:
        """Queue one picture per interval, at an even pace, independent of when frames arrive."""
        grid: FrameGrid | None = None
        while self.seconds < MAX_CLIP_SECONDS:
            await asyncio.sleep(1 / self.fps - self.seconds % (1 / self.fps))
            shown = [frame for slot, frame in sorted(self.run.newest.items()) if self.request.includes(slot)]
            drawn = [frame for frame in shown if frame.jpeg]
            if grid is None and drawn:
                # The size of a clip is fixed by its first picture.
                count = len(self.request.slots) or max(frame.slots for frame in shown)
                grid = FrameGrid.of(max(count, len(drawn)), drawn[0].width, drawn[0].height)
            if grid is not None:
                at = self.seconds
                picture = await asyncio.to_thread(compose_picture, grid, drawn, self.request)
                with contextlib.suppress(queue.Full):
                    self._frames.put_nowait((at, picture))


def compose_picture(grid: FrameGrid, frames: list[Frame], request: BrowserRequest) -> Picture:
    """All slots in one picture, each with its caption below."""
    canvas = Image.new("RGB", grid.size, (16, 24, 32))
    pen = ImageDraw.Draw(canvas)
    ordered = sorted(request.slots)
    for frame in frames:
        index = ordered.index(frame.slot) if ordered else frame.slot
        if index >= grid.count:
            continue
        left, top = grid.place(index)
        with Image.open(io.BytesIO(frame.jpeg)) as picture:
            picture.thumbnail((grid.width, grid.height))
            canvas.paste(picture, (left, top))
        pen.text((left + 4, top + grid.height + 2), caption(frame), fill=(220, 230, 235))
    return np.asarray(canvas, np.uint8)
