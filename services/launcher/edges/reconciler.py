"""The loop of one pool: compares the log with the engine and carries the difference out.

It works from state, not from events: a restart, a second launcher or a lost wake-up only causes a delay.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from runspine.clock import now_micros
from runspine.eventlog.projection import Projector
from runspine.services.launcher.core.placement import Placement, PlacementState
from runspine.services.launcher.core.plan import LaunchHistory, plan_launches
from runspine.services.launcher.core.runs import OpenRuns
from runspine.services.launcher.edges import metrics
from runspine.services.launcher.edges.reports import PlacementReports
from runspine.services.launcher.engines.port import EngineAwayError, Launcher, NotLaunchableError
from runspine.services.launcher.pools import Pool

log = structlog.get_logger()


class PoolReconciler:
    """Launches and cancels the placements of one pool."""

    def __init__(
        self,
        name: str,
        pool: Pool,
        launcher: Launcher,
        runs: OpenRuns,
        projector: Projector,
        seconds: float,
        reports: PlacementReports,
    ) -> None:
        self._name = name
        self._pool = pool
        self._launcher = launcher
        self._runs = runs
        self._projector = projector
        self._seconds = seconds
        self._reports = reports
        self._history = LaunchHistory()
        # Why the engine does not answer; empty while it does.
        self.trouble = ""

    def health(self) -> str:
        """The problem that /healthz reports; empty when there is none."""
        return self.trouble

    async def run(self) -> None:
        async for _ in self._projector.moves(self._seconds):
            try:
                await self._reconcile()
                self.trouble = ""
            except EngineAwayError as error:
                if str(error) != self.trouble:
                    log.warning("engine.away", pool=self._name, error=str(error))
                self.trouble = str(error)
            metrics.AWAY.labels(self._name).set(bool(self.trouble))
            # Facts come in bursts; the engine is read once for each burst.
            await asyncio.sleep(self._seconds / 2)

    async def _reconcile(self) -> None:
        placements = await self._launcher.placements()
        self._count(placements)
        for placement in filter(self._runs.is_due, placements):
            await self._reports.record(placement)
        waiting = self._runs.waiting(self._name, now_micros())
        todo = plan_launches(
            waiting,
            self._runs.open,
            placements,
            self._history,
            limit=self._pool.limit,
            grace=self._pool.grace_seconds,
            now=time.monotonic(),
        )
        for placement in todo.cancel:
            log.info(
                "placement.cancelled", pool=self._name, run_id=placement.run_id, attempt=placement.attempt
            )
            await self._launcher.cancel(placement)
            metrics.CANCELLED.labels(self._name).inc()
        for run in todo.launch:
            self._history.note((run.id, run.attempt), time.monotonic())
            try:
                await self._launcher.launch(run)
            except NotLaunchableError as error:
                metrics.FAILED.labels(self._name).inc()
                log.error("run.not_launchable", pool=self._name, run_id=run.id, error=str(error))
                continue
            metrics.LAUNCHED.labels(self._name).inc()
            log.info("run.launched", pool=self._name, run_id=run.id, attempt=run.attempt)

    def _count(self, placements: list[Placement]) -> None:
        for state in PlacementState:
            count = sum(placement.state is state for placement in placements)
            metrics.PLACEMENTS.labels(self._name, state.value).set(count)
