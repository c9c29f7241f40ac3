"""Who has not been heard of for too long. Pure: time is an argument, in seconds of one clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from runspine.run.commands import ComeBack, Command, GiveUp, GoStale
from runspine.run.evolve import UNDERWAY
from runspine.wire.v1.run_pb2 import CANCELLING, RUNNING, STALE, Beat, Run

# Echoes come once a second; without any for so long, it is we who do not hear.
DEAF_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class Patience:
    """How long silence is borne, in seconds."""

    stale_after: float
    lost_after: float


@dataclass(slots=True)
class Leases:
    """When each attempt was last heard of, by this process's own clock.

    Clocks of workers are not compared with ours, and silence does not count while we could not
    have heard anything: before we began, while NATS was away, or while its stream of beats took none.
    Whether it does is known from our own echo, once a second.
    """

    listening_since: float
    # When anything was heard last, a worker's beat or our own echo: time stands still in between.
    ears: float = 0.0
    _heard: dict[tuple[str, int], float] = field(default_factory=dict)

    def heard(self, beat: Beat, now: float) -> None:
        for attempt in beat.attempts:
            self._heard[attempt.run_id, attempt.attempt] = now

    def __post_init__(self) -> None:
        self.ears = max(self.ears, self.listening_since)

    def sound(self, now: float) -> None:
        """Something came. After a pause in which nothing did, everybody begins anew."""
        if now - self.ears > DEAF_SECONDS:
            self.deaf_until(now)
        self.ears = now

    def deaf_until(self, now: float) -> None:
        """We could not hear until now."""
        self.listening_since = self.ears = now

    def forget(self, open_runs: set[str]) -> None:
        for key in [key for key in self._heard if key[0] not in open_runs]:
            del self._heard[key]

    def silence(self, run: Run, now: float) -> float:
        heard = self._heard.get((run.id, run.attempt), self.listening_since)
        return now - max(heard, self.listening_since)

    def verdict(self, run: Run, now: float, at: int, patience: Patience) -> Command | None:
        """The command that is due for a run under way; `at` is the wall clock, in microseconds."""
        if run.phase not in UNDERWAY:
            return None
        key = (run.id, run.attempt)
        if key not in self._heard:
            self._heard[key] = now  # a fresh attempt has a lease to begin with
            return None
        silence = self.silence(run, now)
        if run.phase == STALE and silence < patience.stale_after and self._heard[key] >= self.listening_since:
            return ComeBack(at=at, attempt=run.attempt)
        if run.phase in (STALE, CANCELLING) and silence >= patience.lost_after:
            reason = f"worker {run.worker_id} was not heard of for {silence:.0f} s"
            return GiveUp(at=at, attempt=run.attempt, reason=reason)
        if run.phase == RUNNING and silence >= patience.stale_after:
            return GoStale(at=at, attempt=run.attempt, last_heard=at - int(silence * 1e6))
        return None
