"""The janitor's term in this process: elected on the log, renewed by pulses on core NATS.

A pulse is a hint, the log is the lock: a holder whose pulses stop is replaced by the next term, and from
then on the server refuses its prunes. Design: docs/adr/0029-one-janitor-at-a-time.md
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time

import structlog
from google.protobuf.message import DecodeError

from runspine.clock import now_micros
from runspine.domain.janitor import JANITOR, DeposedError, elect, fold_term, resign
from runspine.eventlog import ConflictError, CorruptError, EventLog, UnknownOutcomeError
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.core_nats import subscribed, try_publish
from runspine.eventlog.decider import handle
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import ARTIFACTS, JANITOR_PULSE, artifacts_subject
from runspine.ids import new_ulid
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges import pruning_metrics as metrics
from runspine.wire.v1.artifacts_pb2 import JanitorTerm

log = structlog.get_logger()

# Pulses in the time of a lease.
PULSES = 5
RESIGN_SECONDS = 2.0


class HeldTerm:
    """A term of this process. It ends with the next election, and when this process did not run for the time
    of a lease; then every check and every fence raises DeposedError."""

    def __init__(self, lease: JanitorLease, number: int, pause: int) -> None:
        self._lease = lease
        self._pause = pause
        self.number = number

    def check(self) -> None:
        """Raise DeposedError unless the term stands, as far as this process has read."""
        self._lease.check(self.number, self._pause)

    def fence(self) -> int:
        """The position at which ARTIFACTS must end for a fact of this term to be stored: a newer election
        that this process has not read yet is beyond it, so that the server refuses the fact."""
        self.check()
        return self._lease.read_to()


class JanitorLease:
    """Seeks the term, renews it, and takes it over from a holder that is silent."""

    def __init__(
        self,
        link: NatsConnection,
        event_log: EventLog,
        catalog: ArtifactCatalog,
        projector: Projector,
        seconds: float,
    ) -> None:
        self._link = link
        self._log = event_log
        self._catalog = catalog
        self._projector = projector
        self._seconds = seconds
        # Unique to this process: a container that restarts has the same host name and process id.
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{new_ulid()[-6:].lower()}"
        self._silence = 0.0
        self._ticked = time.monotonic()
        # How often this process has not run for the time of a lease.
        self._pauses = 0
        self._seen_term = 0

    def held(self) -> HeldTerm | None:
        """The term of this process; None while another holds it, or nobody."""
        term = self._catalog.janitor
        return HeldTerm(self, term.term, self._pauses) if term.holder == self.holder else None

    def check(self, number: int, pause: int) -> None:
        term = self._catalog.janitor
        if (term.term, term.holder) != (number, self.holder):
            raise DeposedError(f"term {number} is over: {term.holder or 'nobody'} holds term {term.term}")
        if pause != self._pauses or time.monotonic() - self._ticked > self._seconds:
            raise DeposedError(f"term {number} may be over: this process did not run for a while")

    def read_to(self) -> int:
        return self._projector.cursors[ARTIFACTS].sequence

    async def run(self) -> None:
        """Runs until cancelled: pulses while it holds the term, listens while it does not."""
        async with subscribed(self._link, JANITOR_PULSE, self._received):
            while True:
                self._tick()
                try:
                    await self._renew_or_stand()
                except (ConflictError, CorruptError, UnknownOutcomeError, NatsUnreachableError) as error:
                    log.warning("janitor.no_election", error=str(error))
                await asyncio.sleep(self._seconds / PULSES)

    async def resign(self) -> None:
        """End the term of this process, so that another is elected without waiting."""
        if self.held() is None:
            return
        at = now_micros()
        with contextlib.suppress(
            TimeoutError, ConflictError, CorruptError, UnknownOutcomeError, NatsUnreachableError
        ):
            async with asyncio.timeout(RESIGN_SECONDS):
                await handle(
                    self._log,
                    artifacts_subject(JANITOR),
                    lambda term: resign(term, self.holder, at),
                    fold_term,
                )
        metrics.LEADING.set(0)

    def _tick(self) -> None:
        """Count the silence of the holder. Time in which this process did not run, or could not receive a
        pulse, does not count."""
        now = time.monotonic()
        passed, self._ticked = now - self._ticked, now
        if passed > self._seconds:
            self._pauses += 1
        term = self._catalog.janitor
        if term.term != self._seen_term or not self._link.connected:
            self._seen_term, self._silence = term.term, 0.0
        else:
            self._silence += min(passed, 2 * self._seconds / PULSES)
        metrics.TERM.set(term.term)
        metrics.LEADING.set(term.holder == self.holder)

    async def _renew_or_stand(self) -> None:
        term = self._catalog.janitor
        if term.holder == self.holder:
            pulse = JanitorTerm(term=term.term, holder=self.holder, since=term.since)
            await try_publish(self._link, JANITOR_PULSE, pulse.SerializeToString())
        elif not term.holder or self._silence >= self._seconds:
            await self._stand(term.term)

    async def _stand(self, silent: int) -> None:
        at = now_micros()
        handled = await handle(
            self._log,
            artifacts_subject(JANITOR),
            lambda term: elect(term, self.holder, silent, at),
            fold_term,
        )
        if handled.facts:
            metrics.FACTS.labels("janitor_elected").inc()
            log.info("janitor.elected", term=handled.state.term, holder=self.holder)
            await self._projector.reached(ARTIFACTS, handled.position)

    def _received(self, payload: bytes) -> None:
        try:
            pulse = JanitorTerm.FromString(payload)
        except DecodeError:
            return
        if pulse.term >= self._catalog.janitor.term:
            self._silence = 0.0
