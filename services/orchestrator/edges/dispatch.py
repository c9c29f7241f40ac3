"""Keeps the first runs of each pool on the WORK stream.

Each round costs what has changed since the last one: runs, and pools whose queue or free slots are others."""

from __future__ import annotations

import asyncio

import structlog

from runspine.clock import now_micros
from runspine.domain.defaults import DEFAULT_POOL
from runspine.domain.run.attempts import find_attempt
from runspine.eventlog import UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import Projector
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.indexes.queues import PoolQueues
from runspine.services.orchestrator.core.offer_plan import plan_offers
from runspine.services.orchestrator.edges import metrics
from runspine.services.orchestrator.edges.offers import OfferStream

log = structlog.get_logger()

TICK_SECONDS = 1.0
# Facts that arrive within this are one round.
ROUND_SECONDS = 0.002
# As many offers as slots are free, up to this: beyond it, a change of priority would move too many.
MAX_FREE_OFFERS = 256


class Dispatcher:
    """Queues of the pools, and the offers that stand on the stream."""

    def __init__(self, board: Board, projector: Projector, offers: OfferStream, window: int) -> None:
        self._board = board
        self._projector = projector
        self._offers = offers
        self._window = window
        self._queues = PoolQueues()
        self._changed = board.changed.reader(board.open)
        # The window that each pool was planned with.
        self._planned: dict[str, int] = {}

    async def run(self) -> None:
        """One round whenever something has changed; never returns."""
        async for _ in self._projector.moves(TICK_SECONDS):
            try:
                await self._round()
            except (NatsUnreachableError, UnknownOutcomeError) as error:
                log.warning("offers.later", error=str(error))
                self._offers.forget()
                await asyncio.sleep(TICK_SECONDS / 4)
            except ServerRefusedError as error:
                _refused(error)
                self._offers.forget()
                await asyncio.sleep(TICK_SECONDS)
            await asyncio.sleep(ROUND_SECONDS)

    async def _round(self) -> None:
        # The stream is read first: when an offer is gone from it, the board already holds the claim.
        listed = self._offers.is_due
        if listed:
            await self._offers.posted()
        now = now_micros()
        self._update_queues(now)
        served = {DEFAULT_POOL, *self._board.fleet}
        for pool in served.union(self._queues):
            try:
                await self._offers.ensure_pool(pool, self._board.fleet.pool(pool).online)
            except ServerRefusedError as error:
                _refused(error, pool)
        metrics.set_queue_depths(self._queues.depths(), served)
        postponed = self._board.waits.counts(now)
        changed = self._queues.take_changed()
        for pool in {*self._queues, *self._offers.standing(), *changed}:
            window = self._window_of(pool, postponed[pool])
            if listed or pool in changed or self._planned.get(pool) != window:
                self._planned[pool] = window
                try:
                    await self._plan(pool, window)
                except ServerRefusedError as error:
                    self._offers.forget()
                    _refused(error, pool)

    def _update_queues(self, now: int) -> None:
        board, claims = self._board, set[tuple[str, int]]()
        for run_id in self._changed.take().union(self._queues.rested(now)):
            run, history = board.runs.get(run_id), board.attempts.get(run_id)
            if run is None or run_id in board.set_aside or run_id in board.quarantined:
                self._queues.remove(run_id)
                continue
            self._queues.update(run, history, now)
            if history is not None and find_attempt(history, run.attempt) is not None:
                claims.add((run_id, run.attempt))
        if claims:
            self._offers.claimed(claims)

    def _window_of(self, pool: str, postponed: int) -> int:
        """Runs that no worker has room for must not block those behind them."""
        free = min(self._board.fleet.pool(pool).free_slots, MAX_FREE_OFFERS)
        return self._window + free + postponed

    async def _plan(self, pool: str, window: int) -> None:
        changes = plan_offers(self._queues.head(pool, window), self._offers.standing().get(pool, []))
        if changes.withdraw:
            await self._offers.withdraw(changes.withdraw)
        if changes.publish:
            await self._offers.post(*changes.publish)


def _refused(error: ServerRefusedError, pool: str = "") -> None:
    metrics.OFFERS_REFUSED.inc()
    log.error("offers.refused", pool=pool, error=str(error))
