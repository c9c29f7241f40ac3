"""What people mean when they name an artifact."""

from __future__ import annotations

import pytest

from runspine.artifact.commands import Condemn, SetAlias
from runspine.artifact.decide import decide
from services.artifacts.core.reference import Several, Unknown, resolve
from services.artifacts.core.standing import Standings
from tests.unit.artifacts_shop import Shop


@pytest.fixture
def shop() -> Shop:
    return Shop()


def meant(shop: Shop, text: str) -> str:
    return resolve(shop.catalog, Standings(shop.catalog), text).digest


def test_a_checkpoint_has_many_names(shop: Shop) -> None:
    run = shop.run()
    low = shop.add(run, kind="checkpoint", step=10, score=1.0)
    high = shop.add(run, kind="checkpoint", step=5, score=7.0)
    video = shop.add(run, step=3)
    shop.say(f"artifacts.{run}", *decide(shop.catalog.shelves[run], SetAlias(0, "star", low)))
    for text, digest in {
        low: low,
        low[:8].upper(): low,
        f"{run}:best": high,
        f"{run}:latest": low,
        f"{run.lower()}:latest": low,
        "run 1:best": high,
        f"{run}:step-10": low,
        f"{run}:video-3": video,
        f"{run}:{video[:10]}": video,
        "CartPole-v1/ppo:best": high,
        "CartPole-v1/ppo:latest": low,
        "star": low,
    }.items():
        assert meant(shop, text) == digest, text


def test_what_cannot_be_meant_is_said_with_what_could(shop: Shop) -> None:
    run = shop.run()
    shop.add(run)
    shop.add(run, step=1)
    for text, words in {
        "": "name an artifact",
        "nothing": "no artifact, alias or run",
        "nothing:best": "no run is called",
        "Nope-v1/ppo:best": "no good checkpoint is for Nope-v1/ppo",
        f"{run}:best": "has no best checkpoint",
        f"{run}:other.mp4": "runspine artifacts",
    }.items():
        with pytest.raises(Unknown, match=words):
            meant(shop, text)
    with pytest.raises(Several, match="name one"):
        meant(shop, run)


def test_names_skip_what_is_corrupt(shop: Shop) -> None:
    run = shop.run()
    good = shop.add(run, kind="checkpoint", step=1, score=1.0)
    bad = shop.add(run, kind="checkpoint", step=2, score=9.0)
    shop.say(f"artifacts.{run}", *decide(shop.catalog.shelves[run], Condemn(0, bad, "gone", "scrub")))
    assert {meant(shop, f"{run}:{which}") for which in ("best", "latest")} == {good}
    assert meant(shop, "CartPole-v1/ppo:best") == good
    assert meant(shop, bad) == bad


def test_of_shared_bytes_a_good_copy_is_meant(shop: Shop) -> None:
    one, two = shop.run(), shop.run()
    digest = shop.add(one, data="same")
    shop.add(two, data="same")
    shop.say(f"artifacts.{one}", *decide(shop.catalog.shelves[one], Condemn(0, digest, "gone", "scrub")))
    assert resolve(shop.catalog, Standings(shop.catalog), digest).run_id == two


def test_a_score_that_is_not_a_number_is_none(shop: Shop) -> None:
    run = shop.run()
    shop.add(run, kind="checkpoint", step=1, score=float("nan"))
    finite = shop.add(run, kind="checkpoint", step=2, score=-5.0)
    assert meant(shop, f"{run}:best") == finite
