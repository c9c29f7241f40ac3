"""The offers to publish and to withdraw on the WORK stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.wire.v1.run_pb2 import Offer


@dataclass(frozen=True, slots=True)
class PostedOffer:
    """An offer on the WORK stream."""

    sequence: int
    offer: Offer


@dataclass(frozen=True, slots=True)
class OfferPlan:
    """Offers to withdraw from the WORK stream, and offers to publish on it."""

    withdraw: list[PostedOffer]
    publish: list[Offer]


def plan_offers(wanted: list[Offer], posted: list[PostedOffer]) -> OfferPlan:
    """Withdraw offers that are unwanted, duplicate or out of order; publish those that are missing.

    Workers receive offers in the order of the stream, so existing offers are kept only as far as they are a
    prefix of the wanted ones.
    """
    withdraw: list[PostedOffer] = []
    kept = 0
    for entry in posted:
        if kept < len(wanted) and _same(entry.offer, wanted[kept]):
            kept += 1
        else:
            withdraw.append(entry)
    return OfferPlan(withdraw, wanted[kept:])


def _same(one: Offer, other: Offer) -> bool:
    return (one.run_id, one.attempt) == (other.run_id, other.attempt)
