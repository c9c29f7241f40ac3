"""Which runs are offered next, and what must change on the WORK stream for that. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runspine.run.attempts import find_attempt
from runspine.run.rest import rests
from runspine.wire.v1.run_pb2 import QUEUED, AttemptHistory, Offer, Run

DEFAULT_POOL = "default"


@dataclass(frozen=True, slots=True)
class Posted:
    """An offer as it stands on the stream."""

    sequence: int
    offer: Offer


@dataclass(frozen=True, slots=True)
class Plan:
    withdraw: list[int]
    publish: list[Offer]


def pool_of(run: Run) -> str:
    return run.spec.pool or DEFAULT_POOL


def waiting(runs: Iterable[Run], attempts: dict[str, AttemptHistory], now: int) -> dict[str, list[Run]]:
    """Runs that nobody has taken yet, by pool, first come first within a priority."""
    pools: dict[str, list[Run]] = {}
    for run in runs:
        if run.phase != QUEUED or rests(run, now):
            continue
        history = attempts.get(run.id)
        if history is not None and find_attempt(history, run.attempt) is not None:
            continue
        pools.setdefault(pool_of(run), []).append(run)
    for queue in pools.values():
        queue.sort(key=lambda run: (-run.priority, run.queued_at, run.id))
    return pools


def head(pool: str, queue: list[Run], window: int) -> list[Offer]:
    """The offers that should stand, in order: only so many, so that priorities stay free to change."""
    return [
        Offer(run_id=run.id, attempt=run.attempt, pool=pool, priority=run.priority) for run in queue[:window]
    ]


def plan(wanted: list[Offer], posted: list[Posted]) -> Plan:
    """Withdraw what is not wanted, doubled or out of order; publish what is missing.

    Workers are served in the order of the stream, so what stands is kept only as long as it is a
    beginning of what is wanted.
    """
    kept, withdraw = 0, []
    for entry in posted:
        if kept < len(wanted) and _same(entry.offer, wanted[kept]):
            kept += 1
        else:
            withdraw.append(entry.sequence)
    return Plan(withdraw, wanted[kept:])


def _same(one: Offer, other: Offer) -> bool:
    return (one.run_id, one.attempt) == (other.run_id, other.attempt)
