"""Order of waiting runs, and the offers to publish and to withdraw on the WORK stream. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runspine.domain.defaults import DEFAULT_POOL
from runspine.domain.run.attempts import find_attempt
from runspine.domain.run.rest import rests
from runspine.wire.v1.run_pb2 import QUEUED, AttemptHistory, Offer, Run


@dataclass(frozen=True, slots=True)
class PostedOffer:
    """An offer on the WORK stream."""

    sequence: int
    offer: Offer


@dataclass(frozen=True, slots=True)
class OfferPlan:
    """Sequences to withdraw from the WORK stream, and offers to publish on it."""

    withdraw: list[int]
    publish: list[Offer]


def pool_of(run: Run) -> str:
    return run.spec.pool or DEFAULT_POOL


def waiting_runs(runs: Iterable[Run], attempts: dict[str, AttemptHistory], now: int) -> dict[str, list[Run]]:
    """Queued runs without a claim, by pool, in order of priority and then of time."""
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


def head_offers(pool: str, queue: list[Run], window: int) -> list[Offer]:
    """The offers that should be on the stream, in order: only the first, so that priorities can still
    change."""
    return [
        Offer(run_id=run.id, attempt=run.attempt, pool=pool, priority=run.priority) for run in queue[:window]
    ]


def plan_offers(wanted: list[Offer], posted: list[PostedOffer]) -> OfferPlan:
    """Withdraw offers that are unwanted, duplicate or out of order; publish those that are missing.

    Workers receive offers in the order of the stream, so existing offers are kept only as far as they are a
    prefix of the wanted ones.
    """
    kept, withdraw = 0, []
    for entry in posted:
        if kept < len(wanted) and _same(entry.offer, wanted[kept]):
            kept += 1
        else:
            withdraw.append(entry.sequence)
    return OfferPlan(withdraw, wanted[kept:])


def _same(one: Offer, other: Offer) -> bool:
    return (one.run_id, one.attempt) == (other.run_id, other.attempt)
