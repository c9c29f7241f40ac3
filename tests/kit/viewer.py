"""A viewer as the dashboard is one: requests what it wants to see, and keeps what it is shown."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable

from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import subscribed, try_publish
from runspine.eventlog.subjects import control_subject, frames_subject
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.live_pb2 import Control, Frame, Interest


class Viewer:
    def __init__(self, link: NatsConnection, run_id: str) -> None:
        self.link, self.run_id = link, run_id
        self.frames: list[Frame] = []
        self.times: list[float] = []

    def see(self, payload: bytes) -> None:
        self.frames.append(Frame.FromString(payload))
        self.times.append(time.monotonic())

    async def tell(self, control: Control) -> None:
        assert await try_publish(self.link, control_subject(self.run_id), control.SerializeToString())

    @property
    def slots(self) -> set[int]:
        return {frame.slot for frame in self.frames}


@contextlib.asynccontextmanager
async def looking(
    link: NatsConnection, run_id: str, fps: float = 15, width: int = 320, slots: Iterable[int] = ()
) -> AsyncIterator[Viewer]:
    """Look until the end of the block; then fall silent, without a goodbye, as one that was killed."""
    viewer = Viewer(link, run_id)

    async def insist() -> None:
        while True:
            wanted = Interest(viewer="test", fps=fps, width=width, slots=slots)
            await viewer.tell(Control(interest=wanted))
            await asyncio.sleep(1)

    async with subscribed(link, frames_subject(run_id), viewer.see):
        task = asyncio.create_task(insist())
        try:
            yield viewer
        finally:
            await cancel_and_wait(task)
