"""The loops that keep runs moving: reactions, leases, offers. All from the board's state, so a
restart, a second orchestrator or a lost wake-up changes nothing but the moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from runspine.decider import Handled, handle
from runspine.log import Conflict, EventLog, Unknown
from runspine.log.link import Link, Unreachable
from runspine.log.subjects import BEATS, ECHO, run_subject
from runspine.log.tail import Tail
from runspine.projection import Projector
from runspine.run import Refused, decide, fold
from runspine.run.attempts import find_attempt, got_further
from runspine.run.commands import Command, GiveUp
from runspine.wire.v1.run_pb2 import Beat, Run
from services.orchestrator.core.board import Board
from services.orchestrator.core.leases import Leases, Patience
from services.orchestrator.core.queue import DEFAULT_POOL, head, plan, pool_of, waiting
from services.orchestrator.core.react import react
from services.orchestrator.edges import metrics
from services.orchestrator.edges.offers import Offers

log = structlog.get_logger()

AT_ONCE = 32
TICK = 1.0


def wall_clock() -> int:
    return time.time_ns() // 1000


class Conductor:
    def __init__(
        self,
        event_log: EventLog,
        link: Link,
        board: Board,
        projector: Projector,
        offers: Offers,
        *,
        patience: Patience,
        window: int,
    ) -> None:
        self._log = event_log
        self._link = link
        self._board = board
        self._projector = projector
        self._offers = offers
        self._patience = patience
        self._window = window
        self._leases = Leases(time.monotonic())
        self._sounded = time.monotonic()
        metrics.DEAF.set_function(lambda: time.monotonic() - self._sounded)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._busy: set[str] = set()

    async def command(self, run_id: str, command: Command) -> Handled[Run]:
        """Decide on the newest history of a run and store the outcome."""
        handled = await handle(self._log, run_subject(run_id), lambda run: decide(run, command), fold)
        for fact in handled.facts:
            metrics.FACTS.labels(fact.WhichOneof("kind")).inc()
        return handled

    async def follow_beats(self) -> None:
        self._link.on_connect(self._listening_again)
        async for delivery in Tail(self._link, BEATS).deliveries():
            now = self._sounded = time.monotonic()
            self._leases.sound(now)
            if delivery.message.subject == ECHO:
                continue
            beat = Beat.FromString(delivery.message.data)
            self._leases.heard(beat, now)
            self._board.beat(beat, delivery.stored_at)

    async def _listening_again(self) -> None:
        self._leases.deaf_until(time.monotonic())

    async def run_reactions(self) -> None:
        """Answer what workers said, for each run as soon as its state has changed."""
        async with asyncio.TaskGroup() as group:
            async for _ in self._projector.moves(TICK):
                touched, self._board.touched = self._board.touched, set()
                for run_id in touched:
                    run = self._board.runs.get(run_id)
                    if run is None:
                        continue
                    command = react(run, self._board.attempts.get(run_id), wall_clock())
                    if command is not None:
                        await self._submit(group, run_id, command)

    async def run_leases(self) -> None:
        """Look once a second who has gone silent, while we are able to hear."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(TICK)
                if not await self._can_speak():
                    self._leases.deaf_until(time.monotonic())
                    continue
                self._leases.forget(self._board.open)
                now, at = self._leases.ears, wall_clock()
                for run_id in list(self._board.open):
                    command = self._leases.verdict(self._board.runs[run_id], now, at, self._patience)
                    if isinstance(command, GiveUp):
                        command = replace(command, got_further=self._got_further(run_id, command.attempt))
                    if command is not None:
                        log.info("lease.verdict", run_id=run_id, verdict=type(command).__name__)
                        await self._submit(group, run_id, command)

    def _got_further(self, run_id: str, attempt: int) -> bool:
        history = self._board.attempts.get(run_id)
        return history is not None and got_further(run_id, find_attempt(history, attempt))

    async def _can_speak(self) -> bool:
        """Say something among the beats; that it comes back is the proof that beats do."""
        if not self._link.connected:
            return False
        try:
            await self._link.tell(ECHO, b"")
        except Unreachable:
            return False
        return True

    async def run_offers(self) -> None:
        """Keep the head of the order on the queue."""
        async for _ in self._projector.moves(TICK):
            began = time.monotonic()
            try:
                await self._offer()
            except (Unreachable, Unknown) as error:
                log.warning("offers.later", error=str(error))
                await asyncio.sleep(TICK / 4)
            # A long queue takes long to order; that must not keep everything else waiting.
            await asyncio.sleep(max(0.002, 2 * (time.monotonic() - began)))

    async def _offer(self) -> None:
        board = self._board
        served = {DEFAULT_POOL}
        served.update(pool for worker in board.workers.values() if worker.online for pool in worker.pools)
        # The stream first: of an offer that is gone from it, the board knows by then who has taken it.
        posted = await self._offers.posted()
        pools = waiting((board.runs[run_id] for run_id in board.open), board.attempts, wall_clock())
        for pool in served | pools.keys():
            await self._offers.ensure_pool(pool)
        # Runs that found no room must not keep those behind them from being seen.
        put_off = board.put_off(wall_clock())
        metrics.show_queue({pool: len(queue) for pool, queue in pools.items()}, served)
        for pool in pools.keys() | posted.keys():
            queue = pools.get(pool, [])
            window = self._window + sum(pool_of(board.runs[run_id]) == pool for run_id in put_off)
            changes = plan(head(pool, queue, window), posted.get(pool, []))
            for sequence in changes.withdraw:
                await self._offers.withdraw(sequence)
            for offer in changes.publish:
                await self._offers.post(offer)

    async def _submit(self, group: asyncio.TaskGroup, run_id: str, command: Command) -> None:
        """Carry a command out beside others, one at a time for each run."""
        if run_id in self._busy:
            self._board.touched.add(run_id)
            return
        await self._turns.acquire()
        self._busy.add(run_id)
        group.create_task(self._carry_out(run_id, command))

    async def _carry_out(self, run_id: str, command: Command) -> None:
        try:
            handled = await self.command(run_id, command)
            for fact in handled.facts:
                log.info("run.decided", run_id=run_id, fact=fact.WhichOneof("kind"))
        except (Conflict, Unknown, Unreachable) as error:
            log.warning("run.later", run_id=run_id, error=str(error))
            self._board.touched.add(run_id)
        except Refused as error:
            log.warning("run.refused", run_id=run_id, error=str(error))
        finally:
            self._busy.discard(run_id)
            self._turns.release()


Loop = Callable[[], Awaitable[None]]
