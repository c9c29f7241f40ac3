"""Leases of attempts: when a run becomes stale, comes back or is given up. Pure: time is an argument, in
seconds of one clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from runspine.domain.run.commands import ComeBack, Command, GiveUp, GoStale
from runspine.domain.run.evolve import UNDERWAY
from runspine.wire.v1.run_pb2 import CANCELLING, RUNNING, STALE, Run

# The orchestrator publishes an echo once a second. A longer gap means that it cannot receive heartbeats.
MAX_GAP_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class LeaseTimeouts:
    """Seconds without a heartbeat after which a run is STALE, and after which its attempt is given up."""

    stale_after: float
    lost_after: float


@dataclass(slots=True)
class _Lease:
    """The lease of a run's current attempt."""

    attempt: int
    # When it began, or its last heartbeat arrived.
    since: float
    # Whether a heartbeat has arrived, and not only the run was seen.
    received: bool = False
    stale: bool = False
    # When it is looked at next.
    check_at: float = 0.0


@dataclass(slots=True)
class Leases:
    """When the last heartbeat of each attempt arrived, by this process's own clock.

    Workers' clocks are not compared with this one. Silence does not count while no heartbeat could
    arrive: before this process started, while NATS was unreachable, or while the BEATS stream stored
    nothing. The orchestrator's own echo, once a second, shows whether heartbeats can arrive.

    A lease is looked at when it may have run out, which a heartbeat delays: the work is that of the runs
    that end, begin or fall silent, not that of all runs.
    """

    listening_since: float
    # When the last message arrived, a heartbeat or an echo. Leases are measured at this moment, not at the
    # present one, so that no time passes between messages.
    last_arrival: float = 0.0
    _leases: dict[str, _Lease] = field(default_factory=dict)
    # Entries of (time, run); one counts if it is the run's `check_at`.
    _checks: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last_arrival = max(self.last_arrival, self.listening_since)

    def record_heartbeat(self, run_id: str, attempt: int, now: float) -> None:
        """A heartbeat of a run's current attempt arrived."""
        lease = self._lease(run_id, attempt, now)
        lease.since, lease.received = now, True
        if lease.stale:
            self._check(run_id, lease, now)

    def record_arrival(self, now: float) -> None:
        """A message arrived. After a gap without any, every lease starts again."""
        if now - self.last_arrival > MAX_GAP_SECONDS:
            self.restart(now)
        self.last_arrival = now

    def restart(self, now: float) -> None:
        """Start every lease again: no heartbeat could arrive before `now`."""
        self.listening_since = self.last_arrival = now

    def track(self, run: Run, now: float) -> None:
        """A run has changed: it has a lease while it is under way."""
        if run.phase not in UNDERWAY:
            self._leases.pop(run.id, None)
            return
        lease = self._lease(run.id, run.attempt, now)
        lease.stale = run.phase == STALE
        self._check(run.id, lease, now)

    def due(self, now: float) -> list[str]:
        """Runs whose lease may have run out. Each is either tracked again or put off with `check_again`."""
        found = []
        while self._checks and self._checks[0][0] <= now:
            at, run_id = heappop(self._checks)
            lease = self._leases.get(run_id)
            if lease is not None and lease.check_at == at:
                lease.check_at = 0.0
                found.append(run_id)
        return found

    def check_again(self, run: Run, now: float, pause: float, timeouts: LeaseTimeouts) -> None:
        """Look at a run again when its lease may run out, and not before a pause."""
        lease = self._leases.get(run.id)
        if lease is not None:
            limit = timeouts.stale_after if run.phase == RUNNING else timeouts.lost_after
            ends = max(lease.since, self.listening_since) + limit
            self._check(run.id, lease, max(ends, now + pause))

    def silence(self, run: Run, now: float) -> float:
        lease = self._leases.get(run.id)
        last = lease.since if lease is not None and lease.attempt == run.attempt else self.listening_since
        return now - max(last, self.listening_since)

    def due_command(self, run: Run, now: float, at: int, timeouts: LeaseTimeouts) -> Command | None:
        """The command that a run under way needs now, if any; `at` is the wall clock in microseconds."""
        if run.phase not in UNDERWAY:
            return None
        lease = self._lease(run.id, run.attempt, now)
        silence = self.silence(run, now)
        returned = lease.received and lease.since >= self.listening_since
        if run.phase == STALE and silence < timeouts.stale_after and returned:
            return ComeBack(at=at, attempt=run.attempt)
        if run.phase in (STALE, CANCELLING) and silence >= timeouts.lost_after:
            reason = f"no heartbeat from worker {run.worker_id} for {silence:.0f} s"
            return GiveUp(at=at, attempt=run.attempt, reason=reason)
        if run.phase == RUNNING and silence >= timeouts.stale_after:
            return GoStale(at=at, attempt=run.attempt, last_heard=at - int(silence * 1e6))
        return None

    def _lease(self, run_id: str, attempt: int, now: float) -> _Lease:
        """The lease of an attempt; a new one starts whole."""
        lease = self._leases.get(run_id)
        if lease is None or lease.attempt != attempt:
            lease = self._leases[run_id] = _Lease(attempt, now)
        return lease

    def _check(self, run_id: str, lease: _Lease, at: float) -> None:
        if not lease.check_at or at < lease.check_at:
            lease.check_at = at
            heappush(self._checks, (at, run_id))
