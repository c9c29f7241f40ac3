"""What the rules no longer keep, as sentences about plans."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.artifact.commands import SetAlias
from runspine.artifact.decide import decide
from runspine.retention import DEFAULT, effective, violations
from runspine.wire.v1.artifacts_pb2 import GOOD, CatalogState, ScopedProfile
from runspine.wire.v1.facts_pb2 import (
    ArtifactIndexed,
    Fact,
    RetentionProfile,
)
from runspine.wire.v1.spec_pb2 import EVALUATE, WarmStart
from services.artifacts.core.standing import Standings
from tests.unit.artifacts_shop import NOW, SECOND, Shop

HOUR = 3600 * SECOND


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_without_rules_nothing_goes(shop: Shop) -> None:
    run = shop.run()
    for _ in range(5):
        shop.add(run)
    assert shop.gone() == set()


def test_of_the_videos_of_a_run_the_newest_stay(shop: Shop) -> None:
    shop.rule(max_videos_per_run=2)
    run = shop.run()
    videos = [shop.add(run, step=step) for step in range(5)]
    assert shop.gone() == set(videos[:3])


def test_a_pinned_video_stays_and_counts(shop: Shop) -> None:
    shop.rule(max_videos_per_run=2)
    run = shop.run()
    videos = [shop.add(run) for _ in range(5)]
    shop.pin(run, videos[0])
    assert shop.gone() == {*videos[1:4]}


def test_the_best_and_the_latest_checkpoint_are_among_those_that_stay(shop: Shop) -> None:
    shop.rule(max_checkpoints_per_run=3)
    run = shop.run()
    found = [
        shop.add(run, kind="checkpoint", step=step, score=score)
        for step, score in enumerate([1.0, 9.0, 2.0, 3.0, 4.0])
    ]
    assert shop.gone() == {found[0], found[2]}


def test_a_limit_of_one_checkpoint_still_keeps_best_and_latest(shop: Shop) -> None:
    shop.rule(max_checkpoints_per_run=1)
    run = shop.run()
    found = [shop.add(run, kind="checkpoint", step=s, score=v) for s, v in enumerate([5.0, 1.0, 2.0])]
    assert shop.gone() == {found[1]}


def test_a_run_that_has_not_ended_keeps_what_it_may_go_on_from(shop: Shop) -> None:
    shop.rule(max_checkpoints_per_run=1, max_age_seconds=60.0, max_runs_per_agent=1)
    running = shop.run(ended=False)
    kept = [shop.add(running, kind="checkpoint", step=step) for step in range(5)]
    for _ in range(3):
        shop.add(shop.run())
    assert not set(kept[-2:]) & shop.gone()
    assert set(kept[:3]) <= shop.gone()


def test_what_a_waiting_run_begins_with_stays(shop: Shop) -> None:
    shop.rule(max_age_seconds=60.0, max_checkpoints_per_run=1)
    old = shop.run()
    steps = [shop.add(old, kind="checkpoint", step=step) for step in range(4)]
    shop.run(ended=False, warm_start=WarmStart(run_id=old, digest=steps[0]))
    assert shop.gone() == set(steps[1:3])


def test_of_an_agent_the_newest_runs_stay_and_its_best_checkpoint(shop: Shop) -> None:
    shop.rule(max_runs_per_agent=2)
    runs = [shop.run() for _ in range(4)]
    videos = [shop.add(run) for run in runs]
    checkpoints = [
        shop.add(run, kind="checkpoint", score=score) for run, score in zip(runs, [9.0, 1, 2, 3], strict=True)
    ]
    assert shop.gone() == {videos[0], videos[1], checkpoints[1]}


def test_an_agent_is_a_label_where_there_is_one_and_runs_of_others_do_not_count(shop: Shop) -> None:
    shop.rule(max_runs_per_agent=1)
    mine = [shop.add(shop.run(labels={"agent": "mine"})) for _ in range(2)]
    others = [
        shop.add(shop.run(env="Other-v1")),
        shop.add(shop.run(project="p")),
        shop.add(shop.run(mode=EVALUATE)),
    ]
    assert shop.gone() == {mine[0]}
    assert others


def test_old_artifacts_go_by_age_but_not_best_and_latest(shop: Shop) -> None:
    shop.rule(max_age_seconds=3600.0)
    run = shop.run()
    old = shop.add(run, at=NOW - 3 * HOUR)
    young = shop.add(run, at=NOW - HOUR // 2)
    checkpoint = shop.add(run, kind="checkpoint", at=NOW - 9 * HOUR)
    assert shop.gone() == {old}
    assert {young, checkpoint}.isdisjoint(shop.gone())


def test_what_is_younger_than_the_grace_period_is_not_looked_at(shop: Shop) -> None:
    shop.rule(max_videos_per_run=1, grace_seconds=7200.0)
    run = shop.run()
    old = shop.add(run, at=NOW - 3 * HOUR)
    shop.add(run, at=NOW - HOUR)
    shop.add(run, at=NOW)
    assert shop.gone() == {old}


def test_bytes_are_freed_from_what_cannot_be_loaded_first_and_the_oldest_first(shop: Shop) -> None:
    shop.rule(max_bytes=45)
    run = shop.run()
    checkpoints = [shop.add(run, kind="checkpoint", step=step) for step in range(3)]
    videos = [shop.add(run) for _ in range(3)]
    assert shop.gone() == {videos[0], videos[1]}
    shop.rule(max_bytes=25)
    assert shop.gone() == {*videos, checkpoints[0]}
    shop.rule(max_bytes=5)
    assert shop.gone() == {*videos, checkpoints[0], checkpoints[1]}
    assert "keeps 10 bytes, more than its 5" in shop.plan().notices[0]


def test_shared_bytes_count_once_and_are_freed_with_the_last_who_keeps_them(shop: Shop) -> None:
    one, two = shop.run(), shop.run()
    shop.add(one, data="same", size=100)
    shop.add(two, data="same", size=100)
    shop.add(two, size=7)
    shop.rule(max_runs_per_agent=1)
    plan = shop.plan()
    assert [item.artifact.run_id for item in plan.items] == [one]
    assert plan.freed == 0
    shop.rule(max_bytes=107)
    assert shop.gone() == set()


def test_the_narrower_scope_counts_limit_by_limit(shop: Shop) -> None:
    shop.rule(max_videos_per_run=1, max_checkpoints_per_run=2)
    shop.rule("project:mine", max_videos_per_run=2)
    run = shop.run(project="mine")
    free = shop.run(project="mine")
    shop.rule(f"run:{free}", max_videos_per_run=0)
    videos = [shop.add(run) for _ in range(4)]
    for _ in range(4):
        shop.add(free)
    items = shop.plan().items
    assert {item.artifact.digest for item in items} == set(videos[:2])
    assert {item.scope for item in items} == {"project:mine"}


def test_what_is_not_verified_yet_is_not_pruned(shop: Shop) -> None:
    shop.rule(max_videos_per_run=1)
    run = shop.run()
    waiting = shop.add(run, verified=False)
    shop.add(run)
    assert waiting not in shop.gone()


def test_a_name_holds_like_a_pin(shop: Shop) -> None:
    shop.rule(max_runs_per_agent=1)
    old = shop.run()
    named = shop.add(old, kind="checkpoint", score=1.0)
    shop.say(f"artifacts.{old}", *decide(shop.catalog.shelves[old], SetAlias(0, "star", named)))
    shop.add(shop.run(), kind="checkpoint", score=5.0)
    assert shop.gone() == set()


counts = st.integers(0, 3)


@given(
    runs=st.lists(st.tuples(counts, counts, st.booleans(), st.booleans()), min_size=1, max_size=6),
    limits=st.tuples(counts, counts, counts),
)
@settings(max_examples=120)
def test_after_a_prune_nothing_more_goes_and_what_is_held_never_went(
    runs: list[tuple[int, int, bool, bool]], limits: tuple[int, int, int]
) -> None:
    shop = Shop()
    videos, checkpoints, agents = limits
    shop.rule(max_videos_per_run=videos, max_checkpoints_per_run=checkpoints, max_runs_per_agent=agents)
    held: set[str] = set()
    for video_count, checkpoint_count, pinned, ended in runs:
        run = shop.run(ended=ended)
        made = [shop.add(run) for _ in range(video_count)]
        made += [shop.add(run, kind="checkpoint", step=n, score=-n) for n in range(checkpoint_count)]
        if pinned and made:
            shop.pin(run, made[0])
            held.add(made[0])
    best = Standings(shop.catalog).best_of_kind.get("CartPole-v1/ppo")
    plan = shop.plan()
    assert not held & {item.artifact.digest for item in plan.items}
    assert best is None or best.digest not in {item.artifact.digest for item in plan.items}
    for item in plan.items:
        artifact = shop.catalog.shelves[item.artifact.run_id].artifacts[item.artifact.digest]
        artifact.keeping = 2
    assert shop.plan().items == []


def test_a_plan_is_named_by_what_it_holds(shop: Shop) -> None:
    shop.rule(max_videos_per_run=1)
    run = shop.run()
    shop.add(run)
    shop.add(run)
    before = shop.plan().token
    assert shop.plan().token == before
    shop.add(run)
    assert shop.plan().token != before


def test_wrong_profiles_are_named_by_field() -> None:
    found = violations("run:nope", RetentionProfile(max_runs_per_agent=3, max_age_seconds=-1.0))
    assert {v.field for v in found} == {"scope", "max_runs_per_agent", "max_age_seconds"}
    assert [v.field for v in violations("everything", RetentionProfile())] == ["scope"]
    assert violations("default", RetentionProfile(max_age_seconds=float("nan")))[0].field == "max_age_seconds"


def test_a_profile_that_is_set_empty_is_gone(shop: Shop) -> None:
    shop.rule(max_videos_per_run=1)
    shop.rule()
    assert shop.catalog.profiles == {}
    profile, origin = effective({}, "r", "p")
    assert origin == {}
    assert profile.undo_seconds > 0
    assert effective({DEFAULT: ScopedProfile(profile=RetentionProfile(max_bytes=5))}, "r", "")[1] == {
        "max_bytes": DEFAULT
    }


def test_a_catalog_that_was_stored_and_loaded_plans_and_stands_the_same(shop: Shop) -> None:
    shop.rule(max_videos_per_run=1)
    run = shop.run()
    for step in range(3):
        shop.add(run, step=step)
        shop.add(run, kind="checkpoint", step=step, score=step)
    waiting = shop.add(run, kind="checkpoint", step=9, verified=False)
    shop.pin(run)
    named = Standings(shop.catalog).latest_of_run[run]
    shop.say(f"artifacts.{run}", *decide(shop.catalog.shelves[run], SetAlias(0, "star", named.digest)))
    copy = Shop()
    copy.catalog.load(shop.catalog.dump())
    assert copy.plan().token == shop.plan().token
    assert copy.catalog.aliases == shop.catalog.aliases == {"star": (run, named.digest)}
    assert [place for place, _ in copy.catalog.due()] == [run]
    assert copy.catalog.due()[0][1].artifact.digest == waiting
    assert CatalogState.FromString(copy.catalog.dump()) == CatalogState.FromString(shop.catalog.dump())
    best = Standings(copy.catalog).best_of_run[run]
    assert best.step == 2


def test_the_streams_may_be_read_in_any_order(shop: Shop) -> None:
    """The service follows three streams side by side."""
    other = Shop()
    run = shop.run()
    digest = shop.add(run)
    said = shop.catalog.shelves[run].artifacts[digest].productions[0]
    indexed = Fact(at=5, artifact_indexed=ArtifactIndexed(artifact=said, produced_at=4))
    other.say(f"artifacts.{run}", indexed)
    other.say(f"attempts.{run}", Fact(at=4, artifact_produced=said))
    assert other.catalog.due() == []
    assert other.catalog.shelves[run].artifacts[digest].integrity == GOOD
    assert not other.catalog.has_ended(run)  # nothing is known of the run yet: nothing is taken from it
