"""What is seen of a run, put together and kept as a clip: only while somebody asks, and never for long."""

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

from runspine.tasks import put_down
from runspine.video.clip import Clip, NoVideo
from runspine.video.clip import Frame as Picture
from runspine.video.timed import encode_timed
from runspine.wire.v1.live_pb2 import Frame
from services.dashboard.core.mosaic import Mosaic, caption
from services.dashboard.core.wishes import Wish
from services.dashboard.edges.live import Room

# Seconds since the beginning, and what was seen then.
Timed = tuple[float, Picture]
MOST_SECONDS = 120
FASTEST = 15
MOST_KEPT = 20
# Frames on their way to the encoder. When it is slow, frames are left out.
MOST_WAITING = 8


class Clips:
    """Clips that were recorded here, the newest few. A cache: gone when the page's server starts again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path | None:
        """The file of a clip, if there is one; names are ours and hold nothing but letters and digits."""
        path = self._folder / f"{name}.mp4"
        return path if name.isalnum() and path.is_file() else None

    def new(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = sorted(self._folder.glob("*.mp4"), key=lambda path: path.stat().st_mtime)
        for old in kept[: max(0, len(kept) - MOST_KEPT + 1)]:
            old.unlink(missing_ok=True)
        return self._folder / f"{secrets.token_hex(8)}.mp4"


@dataclass
class Recording:
    """From `start` to `stop`, or for as long as is allowed."""

    room: Room
    wish: Wish
    path: Path
    began: float = field(default_factory=time.monotonic)
    _frames: queue.Queue[tuple[float, Picture] | None] = field(
        default_factory=lambda: queue.Queue(MOST_WAITING)
    )
    _task: asyncio.Task[None] | None = None
    _clip: asyncio.Task[Clip] | None = None

    @property
    def fps(self) -> int:
        return max(1, min(FASTEST, round(self.wish.fps)))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    def start(self) -> None:
        self._task = asyncio.create_task(self._film(), name=f"recording-{self.path.stem}")
        self._clip = asyncio.create_task(
            asyncio.to_thread(encode_timed, self._taken(), self.path, fps=self.fps)
        )

    async def stop(self) -> Clip:
        """The clip. Raises NoVideo."""
        assert self._task is not None
        assert self._clip is not None
        await put_down(self._task)
        while not self._clip.done():
            with contextlib.suppress(queue.Full):
                self._frames.put_nowait(None)
                break
            await asyncio.sleep(0.01)
        return await self._clip

    async def drop(self) -> None:
        with contextlib.suppress(NoVideo):
            await self.stop()
        self.path.unlink(missing_ok=True)

    def _taken(self) -> Iterator[Timed]:
        while (frame := self._frames.get()) is not None:
            yield frame

    async def _film(self) -> None:
        """One picture at a time, at an even pace, whatever comes in meanwhile."""
        mosaic: Mosaic | None = None
        while self.seconds < MOST_SECONDS:
            await asyncio.sleep(1 / self.fps - self.seconds % (1 / self.fps))
            shown = [frame for slot, frame in sorted(self.room.newest.items()) if self.wish.includes(slot)]
            drawn = [frame for frame in shown if frame.jpeg]
            if mosaic is None and drawn:
                # Its size stays what it was in the beginning.
                count = max(frame.slots for frame in shown) if not self.wish.slots else len(self.wish.slots)
                mosaic = Mosaic.of(max(count, len(drawn)), drawn[0].width, drawn[0].height)
            if mosaic is not None:
                at, picture = self.seconds, await asyncio.to_thread(compose, mosaic, drawn, self.wish)
                with contextlib.suppress(queue.Full):
                    self._frames.put_nowait((at, picture))


def compose(mosaic: Mosaic, frames: list[Frame], wish: Wish) -> Picture:
    """The slots beside each other, each with its figures below it."""
    canvas = Image.new("RGB", mosaic.size, (16, 24, 32))
    pen = ImageDraw.Draw(canvas)
    ordered = sorted(wish.slots)
    for frame in frames:
        index = ordered.index(frame.slot) if ordered else frame.slot
        if index >= mosaic.count:
            continue
        left, top = mosaic.place(index)
        with Image.open(io.BytesIO(frame.jpeg)) as picture:
            picture.thumbnail((mosaic.width, mosaic.height))
            canvas.paste(picture, (left, top))
        pen.text((left + 4, top + mosaic.height + 2), caption(frame), fill=(220, 230, 235))
    return np.asarray(canvas, np.uint8)
