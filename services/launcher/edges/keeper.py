"""The loop of one pool: what the log wants, what the engine has, and the difference carried out.

All from state, nothing from events: a restart, a second launcher or a lost wake-up changes only the moment.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from runspine.projection import Projector
from services.launcher.core.plan import Memory, plan
from services.launcher.core.runs import Runs
from services.launcher.core.seats import Seat, State
from services.launcher.edges import metrics
from services.launcher.launchers.port import Away, Launcher, NotLaunchable
from services.launcher.pools import Pool

log = structlog.get_logger()


class Keeper:
    def __init__(
        self, name: str, pool: Pool, launcher: Launcher, runs: Runs, projector: Projector, every: float
    ) -> None:
        self._name = name
        self._pool = pool
        self._launcher = launcher
        self._runs = runs
        self._projector = projector
        self._every = every
        self._memory = Memory()
        # Of the engine; empty while it answers.
        self.trouble = ""

    def told(self) -> str:
        return self.trouble

    async def run(self) -> None:
        async for _ in self._projector.moves(self._every):
            try:
                await self._look()
                self.trouble = ""
            except Away as error:
                if str(error) != self.trouble:
                    log.warning("engine.away", pool=self._name, error=str(error))
                self.trouble = str(error)
            metrics.AWAY.labels(self._name).set(bool(self.trouble))
            # Facts come in bursts; an engine is asked once for each.
            await asyncio.sleep(self._every / 2)

    async def _look(self) -> None:
        seats = await self._launcher.seats()
        self._show(seats)
        waiting = self._runs.waiting(self._name, time.time_ns() // 1000)
        todo = plan(
            waiting,
            self._runs.open,
            seats,
            self._memory,
            limit=self._pool.limit,
            grace=self._pool.grace_seconds,
            now=time.monotonic(),
        )
        for seat in todo.cancel:
            log.info("seat.cancelled", pool=self._name, run_id=seat.run_id, attempt=seat.attempt)
            await self._launcher.cancel(seat)
            metrics.CANCELLED.labels(self._name).inc()
        for run in todo.launch:
            self._memory.note((run.id, run.attempt), time.monotonic())
            try:
                await self._launcher.launch(run)
            except NotLaunchable as error:
                metrics.FAILED.labels(self._name).inc()
                log.error("run.not_launchable", pool=self._name, run_id=run.id, error=str(error))
                continue
            metrics.LAUNCHED.labels(self._name).inc()
            log.info("run.launched", pool=self._name, run_id=run.id, attempt=run.attempt)

    def _show(self, seats: list[Seat]) -> None:
        for state in State:
            count = sum(seat.state is state for seat in seats)
            metrics.SEATS.labels(self._name, state.value).set(count)
