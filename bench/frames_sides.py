"""Both ends of live frames for `runspine bench frames`, each a process of its own.

`python -m bench.frames_sides worker URL RUN FOLDER`: the worker's part, between a trainer's socket and NATS.
`python -m bench.frames_sides viewers URL RUN COUNT FPS WIDTH`: so many viewers, each with its own connection.
Both end when their stdin does, and then say what they saw as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from bench.figures import percentile
from runspine.log.link import Account, Link
from runspine.log.live import listening, say
from runspine.log.subjects import control_subject, frames_subject
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.live_pb2 import Control, Frame, Interest
from services.worker.view_socket import Place
from services.worker.viewing import Viewing


async def work(url: str, run: str, folder: str) -> dict[str, Any]:
    place, peak = Place(Path(folder)), 0
    async with Link(Account(url), "worker") as link, Viewing(link, run, 1, place, Progress):
        print(place.path, flush=True)
        before = psutil.Process().memory_info().rss
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not ended.done():
            peak = max(peak, psutil.Process().memory_info().rss)
            await asyncio.sleep(0.05)
    return {"before": before, "peak": peak}


class Viewer:
    def __init__(self) -> None:
        self.slots: set[int] = set()
        self.frames = 0
        self.bytes = 0
        self.began = 0.0
        self.last = 0.0
        self.delays: list[float] = []

    def see(self, payload: bytes) -> None:
        now, frame = time.time(), Frame.FromString(payload)
        self.began, self.last = self.began or now, now
        self.slots.add(frame.slot)
        self.frames += 1
        self.bytes += len(payload)
        self.delays.append(now - frame.at / 1e6)


async def view(url: str, run: str, count: str, fps: str, width: str) -> dict[str, Any]:
    viewers = [Viewer() for _ in range(int(count))]
    async with contextlib.AsyncExitStack() as stack:
        for number, viewer in enumerate(viewers):
            link = await stack.enter_async_context(Link(Account(url), f"viewer-{number}"))
            await stack.enter_async_context(listening(link, frames_subject(run), viewer.see))
            wanted = Interest(viewer=str(number), fps=float(fps), width=int(width))
            insisting = asyncio.create_task(insist(link, run, wanted))
            stack.push_async_callback(put_down, insisting)
        print("looking", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    one = max(viewers, key=lambda viewer: viewer.frames)
    return {
        "frames": one.frames,
        "slots": len(one.slots),
        "seconds": one.last - one.began,
        "bytes": one.bytes,
        "delay_p50": percentile(one.delays, 0.5) if one.delays else 0.0,
        "delay_p95": percentile(one.delays, 0.95) if one.delays else 0.0,
        "least": min(viewer.frames for viewer in viewers),
    }


async def insist(link: Link, run: str, wanted: Interest) -> None:
    while True:
        await say(link, control_subject(run), Control(interest=wanted).SerializeToString())
        await asyncio.sleep(1)


if __name__ == "__main__":
    side, *given = sys.argv[1:]
    print(json.dumps(asyncio.run({"worker": work, "viewers": view}[side](*given))), flush=True)
