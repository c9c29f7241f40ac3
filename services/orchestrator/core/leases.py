"""Leases of attempts: when a run becomes stale, comes back or is given up. Pure: time is an argument, in
seconds of one clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from runspine.domain.run.commands import ComeBack, Command, GiveUp, GoStale
from runspine.domain.run.evolve import UNDERWAY
from runspine.wire.v1.run_pb2 import CANCELLING, RUNNING, STALE, Beat, Run

# The orchestrator publishes an echo once a second. A longer gap means that it cannot receive heartbeats.
MAX_GAP_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class LeaseTimeouts:
    """Seconds without a heartbeat after which a run is STALE, and after which its attempt is given up."""

    stale_after: float
    lost_after: float


@dataclass(slots=True)
class Leases:
    """When the last heartbeat of each attempt arrived, by this process's own clock.

    Workers' clocks are not compared with this one. Silence does not count while no heartbeat could
    arrive: before this process started, while NATS was unreachable, or while the BEATS stream stored
    nothing. The orchestrator's own echo, once a second, shows whether heartbeats can arrive.
    """

    listening_since: float
    # When the last message arrived, a heartbeat or an echo. Leases are measured at this moment, not at the
    # present one, so that no time passes between messages.
    last_arrival: float = 0.0
    _beats: dict[tuple[str, int], float] = field(default_factory=dict)

    def record_heartbeat(self, beat: Beat, now: float) -> None:
        for attempt in beat.attempts:
            self._beats[attempt.run_id, attempt.attempt] = now

    def __post_init__(self) -> None:
        self.last_arrival = max(self.last_arrival, self.listening_since)

    def record_arrival(self, now: float) -> None:
        """A message arrived. After a gap without any, every lease starts again."""
        if now - self.last_arrival > MAX_GAP_SECONDS:
            self.restart(now)
        self.last_arrival = now

    def restart(self, now: float) -> None:
        """Start every lease again: no heartbeat could arrive before `now`."""
        self.listening_since = self.last_arrival = now

    def forget(self, open_runs: set[str]) -> None:
        for key in [key for key in self._beats if key[0] not in open_runs]:
            del self._beats[key]

    def silence(self, run: Run, now: float) -> float:
        last = self._beats.get((run.id, run.attempt), self.listening_since)
        return now - max(last, self.listening_since)

    def due_command(self, run: Run, now: float, at: int, timeouts: LeaseTimeouts) -> Command | None:
        """The command that a run under way needs now, if any; `at` is the wall clock in microseconds."""
        if run.phase not in UNDERWAY:
            return None
        key = (run.id, run.attempt)
        if key not in self._beats:
            self._beats[key] = now  # a new attempt starts with a whole lease
            return None
        silence = self.silence(run, now)
        if run.phase == STALE and silence < timeouts.stale_after and self._beats[key] >= self.listening_since:
            return ComeBack(at=at, attempt=run.attempt)
        if run.phase in (STALE, CANCELLING) and silence >= timeouts.lost_after:
            reason = f"no heartbeat from worker {run.worker_id} for {silence:.0f} s"
            return GiveUp(at=at, attempt=run.attempt, reason=reason)
        if run.phase == RUNNING and silence >= timeouts.stale_after:
            return GoStale(at=at, attempt=run.attempt, last_heard=at - int(silence * 1e6))
        return None
