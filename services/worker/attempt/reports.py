"""Records what a trainer reports about itself: TrainerDescribed and TrackingReported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from runspine.clock import now_micros
from runspine.services.worker.artifacts.wandb_folder import find_tracking
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.wire.v1.facts_pb2 import Fact, Tracking, TrackingReported, TrainerDescribed

POLL_SECONDS = 2.0
# Of each kind for one attempt: a trainer that changes its description for ever must not fill the log.
MAX_FACTS = 16

Append = Callable[[Fact], Awaitable[None]]


class TrainerReports:
    """Appends a fact whenever the description or the run at a tracker has changed."""

    def __init__(self, attempt: int, run_dir: Path, telemetry: TelemetryPipeline, append: Append) -> None:
        self._attempt = attempt
        self._run_dir = run_dir
        self._telemetry = telemetry
        self._append = append
        self._described = TrainerDescribed()
        self._tracking = Tracking()
        self._folder: Tracking | None = None
        self._left = dict.fromkeys(("described", "tracking"), MAX_FACTS)

    async def follow(self) -> None:
        """Record at intervals, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.record()

    async def record(self) -> None:
        """Record what has changed since the last time."""
        description = self._telemetry.description
        folder = await asyncio.to_thread(find_tracking, self._run_dir)
        if folder != self._folder:
            self._folder = folder
            description.add_tracking(folder)
        described = description.described
        if described != self._described and self._may("described"):
            self._described.CopyFrom(described)
            described.attempt = self._attempt
            await self._append(Fact(at=now_micros(), trainer_described=described))
        tracking = description.tracking
        if tracking != self._tracking and self._may("tracking"):
            self._tracking.CopyFrom(tracking)
            reported = TrackingReported(attempt=self._attempt, tracking=tracking)
            await self._append(Fact(at=now_micros(), tracking_reported=reported))

    def _may(self, kind: str) -> bool:
        self._left[kind] -= 1
        return self._left[kind] >= 0
