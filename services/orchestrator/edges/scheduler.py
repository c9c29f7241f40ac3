"""The orchestrator's loops: reactions to workers' facts, leases and offers.

Each works from the board's state, so a restart, a second orchestrator or a lost wake-up only delays a
decision."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import structlog
from google.protobuf.message import DecodeError

from runspine.clock import now_micros
from runspine.domain.run import RunRefusedError, decide, fold
from runspine.domain.run.attempts import find_attempt, got_further
from runspine.domain.run.commands import Command, GiveUp
from runspine.eventlog import ConflictError, CorruptError, EventLog, UnknownOutcomeError
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.decider import Handled, handle
from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import MessageTooLargeError
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.subjects import BEATS, ECHO, beat_subject, run_subject
from runspine.eventlog.tail import Delivery, Tail
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.leases import Leases, LeaseTimeouts
from runspine.services.orchestrator.core.reactions import react
from runspine.services.orchestrator.edges import metrics
from runspine.services.orchestrator.edges.dispatch import Dispatcher
from runspine.services.orchestrator.edges.offers import OfferStream
from runspine.services.orchestrator.edges.set_aside import SetAsideRuns
from runspine.wire.v1.run_pb2 import Beat, Run

log = structlog.get_logger()

MAX_CONCURRENT_COMMANDS = 32
TICK_SECONDS = 1.0


class Scheduler:
    """Carries out commands, follows heartbeats, and runs the loops of reactions, leases and offers."""

    def __init__(
        self,
        event_log: EventLog,
        link: NatsConnection,
        board: Board,
        projector: Projector,
        offers: OfferStream,
        *,
        timeouts: LeaseTimeouts,
        window: int,
    ) -> None:
        self._log = event_log
        self._link = link
        self._board = board
        self._projector = projector
        self._dispatcher = Dispatcher(board, projector, offers, window)
        self._timeouts = timeouts
        self._leases = Leases(time.monotonic())
        self._last_arrival = time.monotonic()
        metrics.HEARTBEAT_GAP.set_function(lambda: time.monotonic() - self._last_arrival)
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_COMMANDS)
        self._busy: set[str] = set()
        self._set_aside = SetAsideRuns(board)
        # Runs to react to, and runs whose lease may begin or end.
        self._touched = board.changed.reader(board.open)
        self._lease_changes = board.changed.reader(board.open)

    async def command(self, run_id: str, command: Command) -> Handled[Run]:
        """Decide on the newest history of a run and append the facts."""
        handled = await handle(self._log, run_subject(run_id), lambda run: decide(run, command), fold)
        for fact in handled.facts:
            metrics.FACTS.labels(fact.WhichOneof("kind")).inc()
        return handled

    async def follow_beats(self) -> None:
        self._link.on_connect(self._restart_leases)
        async for delivery in Tail(self._link, BEATS).deliveries():
            now = self._last_arrival = time.monotonic()
            self._leases.record_arrival(now)
            if delivery.subject == ECHO:
                continue
            beat = _parse_beat(delivery)
            if beat is None:
                metrics.HEARTBEATS_UNREADABLE.inc()
                continue
            self._record_heartbeat(beat, now)
            self._board.apply_heartbeat(beat, delivery.stored_at)

    def _record_heartbeat(self, beat: Beat, now: float) -> None:
        """Of the current attempts of open runs alone: any worker may report any attempt."""
        for each in beat.attempts:
            run = self._board.runs.get(each.run_id)
            if run is not None and run.attempt == each.attempt and run.id in self._board.open:
                self._leases.record_heartbeat(run.id, each.attempt, now)

    async def _restart_leases(self) -> None:
        self._leases.restart(time.monotonic())

    async def run_reactions(self) -> None:
        """Record starts and exits that workers reported, for each run as soon as its state changes."""
        async with asyncio.TaskGroup() as group:
            async for _ in self._projector.moves(TICK_SECONDS):
                for run_id in self._touched.take() | self._set_aside.due(time.monotonic()):
                    run = self._board.runs.get(run_id)
                    if run is None:
                        continue
                    command = react(run, self._board.attempts.get(run_id), now_micros())
                    if command is not None:
                        await self._submit(group, run_id, command)

    async def run_leases(self) -> None:
        """Once a second, check leases that may have run out, while heartbeats can arrive."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                if not await self._publish_echo():
                    self._leases.restart(time.monotonic())
                    continue
                now, at = self._leases.last_arrival, now_micros()
                for run_id in self._lease_changes.take():
                    self._leases.track(self._board.runs.get(run_id, Run(id=run_id)), now)
                for run_id in self._leases.due(now):
                    await self._check_lease(group, self._board.runs[run_id], now, at)

    async def _check_lease(self, group: asyncio.TaskGroup, run: Run, now: float, at: int) -> None:
        command = self._leases.due_command(run, now, at, self._timeouts)
        self._leases.check_again(run, now, TICK_SECONDS, self._timeouts)
        if isinstance(command, GiveUp):
            command = self._with_history(run.id, command)
        if command is not None:
            log.info("lease.verdict", run_id=run.id, verdict=type(command).__name__)
            await self._submit(group, run.id, command)

    def _with_history(self, run_id: str, command: GiveUp) -> GiveUp:
        """The command with what the attempts of the run add: how far it came, and why its engine ended it."""
        history = self._board.attempts.get(run_id)
        if history is None:
            return command
        attempt, ended = find_attempt(history, command.attempt), history.placement_ended
        reason = command.reason
        if attempt is not None and ended.attempt == attempt.number and ended.worker_id == attempt.worker_id:
            reason = f"{ended.stop.reason}; {reason}"
        return replace(command, reason=reason, got_further=got_further(run_id, attempt))

    async def _publish_echo(self) -> bool:
        """Publish an echo on the BEATS stream; its arrival proves that heartbeats arrive. False if NATS is
        unreachable."""
        if not self._link.connected:
            return False
        try:
            await self._link.publish(ECHO, b"")
        except NatsUnreachableError:
            return False
        return True

    async def run_offers(self) -> None:
        """Keep the first runs of each pool on the WORK stream."""
        await self._dispatcher.run()

    async def _submit(self, group: asyncio.TaskGroup, run_id: str, command: Command) -> None:
        """Carry a command out concurrently with others, one at a time for each run."""
        if run_id in self._busy:
            self._touched.add(run_id)
            return
        if run_id in self._board.quarantined or self._set_aside.holds(run_id, time.monotonic()):
            return
        await self._turns.acquire()
        self._busy.add(run_id)
        group.create_task(self._carry_out(run_id, command))

    async def _carry_out(self, run_id: str, command: Command) -> None:
        try:
            handled = await self.command(run_id, command)
            for fact in handled.facts:
                log.info("run.decided", run_id=run_id, fact=fact.WhichOneof("kind"))
            self._set_aside.discard(run_id)
        except (ConflictError, UnknownOutcomeError, NatsUnreachableError) as error:
            log.warning("run.later", run_id=run_id, error=str(error))
            self._touched.add(run_id)
        except (CorruptError, ServerRefusedError, MessageTooLargeError) as error:
            self._set_aside.add(run_id, error, time.monotonic())
        except RunRefusedError as error:
            log.warning("run.refused", run_id=run_id, error=str(error))
        finally:
            self._busy.discard(run_id)
            self._turns.release()


def _parse_beat(delivery: Delivery) -> Beat | None:
    """The heartbeat, or None if the message is not one of the worker that its subject names."""
    try:
        beat = Beat.FromString(delivery.data)
    except DecodeError:
        return None
    return beat if delivery.subject == beat_subject(beat.worker_id) else None
