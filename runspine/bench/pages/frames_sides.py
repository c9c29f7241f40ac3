"""Both sides of live frames for `runspine bench frames`, each a separate process.

`frames_sides worker URL RUN FOLDER`: the worker's part, between a trainer's socket and NATS.
`frames_sides viewers URL RUN COUNT FPS WIDTH`: COUNT viewers, each with its own connection.
Both end when their stdin does, and then print a summary as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil

from runspine.bench.kit.figures import percentile
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.core_nats import subscribed, try_publish
from runspine.eventlog.subjects import control_subject, frames_subject
from runspine.services.worker.live.publisher import FramePublisher
from runspine.services.worker.live.view_socket import ViewSocket
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.live_pb2 import Control, Frame, Interest


async def work(url: str, run: str, folder: str) -> dict[str, Any]:
    place, peak = ViewSocket(Path(folder)), 0
    async with (
        NatsConnection(NatsAccount(url), "worker") as link,
        FramePublisher(link, run, 1, place, Progress),
    ):
        print(place.path, flush=True)
        before = psutil.Process().memory_info().rss
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not ended.done():
            peak = max(peak, psutil.Process().memory_info().rss)
            await asyncio.sleep(0.05)
    return {"before": before, "peak": peak}


class FrameViewer:
    """Counts the frames that it receives."""

    def __init__(self) -> None:
        self.slots: set[int] = set()
        self.frames = 0
        self.bytes = 0
        self.began = 0.0
        self.last = 0.0
        self.delays: list[float] = []

    def receive(self, payload: bytes) -> None:
        now, frame = time.time(), Frame.FromString(payload)
        self.began, self.last = self.began or now, now
        self.slots.add(frame.slot)
        self.frames += 1
        self.bytes += len(payload)
        self.delays.append(now - frame.at / 1e6)


async def view(url: str, run: str, count: str, fps: str, width: str) -> dict[str, Any]:
    viewers = [FrameViewer() for _ in range(int(count))]
    async with contextlib.AsyncExitStack() as stack:
        for number, viewer in enumerate(viewers):
            link = await stack.enter_async_context(NatsConnection(NatsAccount(url), f"viewer-{number}"))
            await stack.enter_async_context(subscribed(link, frames_subject(run), viewer.receive))
            wanted = Interest(viewer=str(number), fps=float(fps), width=int(width))
            insisting = asyncio.create_task(insist(link, run, wanted))
            stack.push_async_callback(cancel_and_wait, insisting)
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


async def insist(link: NatsConnection, run: str, wanted: Interest) -> None:
    while True:
        await try_publish(link, control_subject(run), Control(interest=wanted).SerializeToString())
        await asyncio.sleep(1)


if __name__ == "__main__":
    side, *given = sys.argv[1:]
    sides: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {"worker": work, "viewers": view}
    print(json.dumps(asyncio.run(sides[side](*given))), flush=True)
