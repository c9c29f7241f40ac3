from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runspine.services.orchestrator.core.offer_plan import (
    PostedOffer,
    plan_offers,
)
from runspine.wire.v1.run_pb2 import Offer

names = st.sampled_from("abcdefgh")
offers = st.builds(Offer, run_id=names, attempt=st.integers(1, 2))


def key(offer: Offer) -> tuple[str, int]:
    return offer.run_id, offer.attempt


@given(st.lists(offers, unique_by=key, max_size=8), st.lists(offers, max_size=10))
def test_after_the_plan_exactly_the_wanted_offers_stand_in_order(
    wanted: list[Offer], standing: list[Offer]
) -> None:
    posted = [PostedOffer(sequence, offer) for sequence, offer in enumerate(standing, 1)]
    changes = plan_offers(wanted, posted)
    left = [p.offer for p in posted if p not in changes.withdraw]
    assert [key(o) for o in left + changes.publish] == [key(o) for o in wanted]


@given(st.lists(offers, unique_by=key, max_size=8))
def test_nothing_changes_when_all_is_as_wanted(wanted: list[Offer]) -> None:
    changes = plan_offers(wanted, [PostedOffer(n, offer) for n, offer in enumerate(wanted)])
    assert (changes.withdraw, changes.publish) == ([], [])
