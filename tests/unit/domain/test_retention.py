"""What the rules no longer keep, as sentences about plans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.domain.artifact.commands import Erase, Prune, PruneTarget, Restore, SetAlias
from runspine.domain.artifact.decide import decide
from runspine.domain.retention import DEFAULT, effective, violations
from runspine.services.artifacts.core.ranking import Ranking
from runspine.services.artifacts.core.retention_status import runs_with, status
from runspine.text.artifacts import retained_parts, runs_with_text
from runspine.wire.v1.artifacts_pb2 import GOOD, CatalogState, ScopedProfile
from runspine.wire.v1.facts_pb2 import (
    ArtifactIndexed,
    Fact,
    RetentionProfile,
)
from runspine.wire.v1.spec_pb2 import EVALUATE, Dataset, WarmStart
from tests.kit.samples.catalog import NOW, SECOND, ArtifactHistory

HOUR = 3600 * SECOND


@pytest.fixture
def history() -> ArtifactHistory:
    return ArtifactHistory()


def test_without_rules_nothing_goes(history: ArtifactHistory) -> None:
    run = history.run()
    for _ in range(5):
        history.add(run)
    assert history.gone() == set()


def test_of_the_videos_of_a_run_the_newest_stay(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=2)
    run = history.run()
    videos = [history.add(run, step=step) for step in range(5)]
    assert history.gone() == set(videos[:3])


def test_a_pinned_video_stays_and_counts(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=2)
    run = history.run()
    videos = [history.add(run) for _ in range(5)]
    history.pin(run, videos[0])
    assert history.gone() == {*videos[1:4]}


def test_the_best_and_the_latest_checkpoint_are_among_those_that_stay(history: ArtifactHistory) -> None:
    history.rule(max_checkpoints_per_run=3)
    run = history.run()
    found = [
        history.add(run, kind="checkpoint", step=step, score=score)
        for step, score in enumerate([1.0, 9.0, 2.0, 3.0, 4.0])
    ]
    assert history.gone() == {found[0], found[2]}


def test_a_limit_of_one_checkpoint_still_keeps_best_and_latest(history: ArtifactHistory) -> None:
    history.rule(max_checkpoints_per_run=1)
    run = history.run()
    found = [history.add(run, kind="checkpoint", step=s, score=v) for s, v in enumerate([5.0, 1.0, 2.0])]
    assert history.gone() == {found[1]}


def test_a_run_that_has_not_ended_keeps_what_it_may_go_on_from(history: ArtifactHistory) -> None:
    history.rule(max_checkpoints_per_run=1, max_age_seconds=60.0, max_runs_per_agent=1)
    running = history.run(ended=False)
    kept = [history.add(running, kind="checkpoint", step=step) for step in range(5)]
    for _ in range(3):
        history.add(history.run())
    assert not set(kept[-2:]) & history.gone()
    assert set(kept[:3]) <= history.gone()


def test_what_a_waiting_run_begins_with_stays(history: ArtifactHistory) -> None:
    history.rule(max_age_seconds=60.0, max_checkpoints_per_run=1)
    old = history.run()
    steps = [history.add(old, kind="checkpoint", step=step) for step in range(4)]
    history.run(ended=False, warm_start=WarmStart(run_id=old, digest=steps[0]))
    assert history.gone() == set(steps[1:3])


def test_a_dataset_that_a_waiting_run_learns_from_stays(history: ArtifactHistory) -> None:
    history.rule(max_age_seconds=60.0)
    made = history.run()
    needed, other = (history.add(made, kind="dataset", step=step) for step in range(2))
    history.run(ended=False, dataset=Dataset(digest=needed))
    assert history.gone() == {other}


def test_of_an_agent_the_newest_runs_stay_and_its_best_checkpoint(history: ArtifactHistory) -> None:
    history.rule(max_runs_per_agent=2)
    runs = [history.run() for _ in range(4)]
    videos = [history.add(run) for run in runs]
    checkpoints = [
        history.add(run, kind="checkpoint", score=score)
        for run, score in zip(runs, [9.0, 1, 2, 3], strict=True)
    ]
    assert history.gone() == {videos[0], videos[1], checkpoints[1]}


def test_an_agent_is_a_label_where_there_is_one_and_runs_of_others_do_not_count(
    history: ArtifactHistory,
) -> None:
    history.rule(max_runs_per_agent=1)
    mine = [history.add(history.run(labels={"agent": "mine"})) for _ in range(2)]
    others = [
        history.add(history.run(env="Other-v1")),
        history.add(history.run(project="p")),
        history.add(history.run(mode=EVALUATE)),
    ]
    assert history.gone() == {mine[0]}
    assert others


def test_old_artifacts_go_by_age_but_not_best_and_latest(history: ArtifactHistory) -> None:
    history.rule(max_age_seconds=3600.0)
    run = history.run()
    old = history.add(run, at=NOW - 3 * HOUR)
    young = history.add(run, at=NOW - HOUR // 2)
    checkpoint = history.add(run, kind="checkpoint", at=NOW - 9 * HOUR)
    assert history.gone() == {old}
    assert {young, checkpoint}.isdisjoint(history.gone())


def test_what_is_younger_than_the_grace_period_is_not_looked_at(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=1, grace_seconds=7200.0)
    run = history.run()
    old = history.add(run, at=NOW - 3 * HOUR)
    history.add(run, at=NOW - HOUR)
    history.add(run, at=NOW)
    assert history.gone() == {old}


def test_bytes_are_freed_from_what_cannot_be_loaded_first_and_the_oldest_first(
    history: ArtifactHistory,
) -> None:
    history.rule(max_bytes=45)
    run = history.run()
    checkpoints = [history.add(run, kind="checkpoint", step=step) for step in range(3)]
    videos = [history.add(run) for _ in range(3)]
    assert history.gone() == {videos[0], videos[1]}
    history.rule(max_bytes=25)
    assert history.gone() == {*videos, checkpoints[0]}
    history.rule(max_bytes=5)
    assert history.gone() == {*videos, checkpoints[0], checkpoints[1]}
    assert "keeps 10 bytes, more than its 5" in history.plan().notices[0]


def test_shared_bytes_count_once_and_are_freed_with_the_last_who_keeps_them(history: ArtifactHistory) -> None:
    one, two = history.run(), history.run()
    history.add(one, data="same", size=100)
    history.add(two, data="same", size=100)
    history.add(two, size=7)
    history.rule(max_runs_per_agent=1)
    plan = history.plan()
    assert [item.artifact.run_id for item in plan.items] == [one]
    assert plan.freed == 0
    history.rule(max_bytes=107)
    assert history.gone() == set()


def test_the_narrower_scope_counts_limit_by_limit(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=1, max_checkpoints_per_run=2)
    history.rule("project:mine", max_videos_per_run=2)
    run = history.run(project="mine")
    free = history.run(project="mine")
    history.rule(f"run:{free}", max_videos_per_run=0)
    videos = [history.add(run) for _ in range(4)]
    for _ in range(4):
        history.add(free)
    items = history.plan().items
    assert {item.artifact.digest for item in items} == set(videos[:2])
    assert {item.scope for item in items} == {"project:mine"}


def test_what_is_not_verified_yet_is_not_pruned(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=1)
    run = history.run()
    waiting = history.add(run, verified=False)
    history.add(run)
    assert waiting not in history.gone()


def test_a_name_holds_like_a_pin(history: ArtifactHistory) -> None:
    history.rule(max_runs_per_agent=1)
    old = history.run()
    named = history.add(old, kind="checkpoint", score=1.0)
    history.append(
        f"artifacts.{old}", *decide(history.catalog.run_artifacts[old], SetAlias(0, "star", named))
    )
    history.add(history.run(), kind="checkpoint", score=5.0)
    assert history.gone() == set()


counts = st.integers(0, 3)


@given(
    runs=st.lists(st.tuples(counts, counts, st.booleans(), st.booleans()), min_size=1, max_size=6),
    limits=st.tuples(counts, counts, counts),
)
def test_after_a_prune_nothing_more_goes_and_what_is_held_never_went(
    runs: list[tuple[int, int, bool, bool]], limits: tuple[int, int, int]
) -> None:
    history = ArtifactHistory()
    videos, checkpoints, agents = limits
    history.rule(max_videos_per_run=videos, max_checkpoints_per_run=checkpoints, max_runs_per_agent=agents)
    held: set[str] = set()
    for video_count, checkpoint_count, pinned, ended in runs:
        run = history.run(ended=ended)
        made = [history.add(run) for _ in range(video_count)]
        made += [history.add(run, kind="checkpoint", step=n, score=-n) for n in range(checkpoint_count)]
        if pinned and made:
            history.pin(run, made[0])
            held.add(made[0])
    best = Ranking(history.catalog).best_of_kind.get("CartPole-v1/ppo")
    plan = history.plan()
    assert not held & {item.artifact.digest for item in plan.items}
    assert best is None or best.digest not in {item.artifact.digest for item in plan.items}
    for item in plan.items:
        artifact = history.catalog.run_artifacts[item.artifact.run_id].artifacts[item.artifact.digest]
        artifact.keeping = 2  # type: ignore[assignment]
    assert history.plan().items == []


def test_a_plan_is_named_by_what_it_holds(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=1)
    run = history.run()
    history.add(run)
    history.add(run)
    before = history.plan().token
    assert history.plan().token == before
    history.add(run)
    assert history.plan().token != before


def test_wrong_profiles_are_named_by_field() -> None:
    found = violations("run:nope", RetentionProfile(max_runs_per_agent=3, max_age_seconds=-1.0))
    assert {v.field for v in found} == {"scope", "max_runs_per_agent", "max_age_seconds"}
    assert [v.field for v in violations("everything", RetentionProfile())] == ["scope"]
    assert violations("default", RetentionProfile(max_age_seconds=float("nan")))[0].field == "max_age_seconds"


def test_a_profile_that_is_set_empty_is_gone(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=1)
    history.rule()
    assert history.catalog.profiles == {}
    profile, origin = effective({}, "r", "p")
    assert origin == {}
    assert profile.undo_seconds > 0
    assert effective({DEFAULT: ScopedProfile(profile=RetentionProfile(max_bytes=5))}, "r", "")[1] == {
        "max_bytes": DEFAULT
    }


def test_a_catalog_that_was_stored_and_loaded_plans_and_stands_the_same(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=1)
    run = history.run()
    for step in range(3):
        history.add(run, step=step)
        history.add(run, kind="checkpoint", step=step, score=step)
    waiting = history.add(run, kind="checkpoint", step=9, verified=False)
    history.pin(run)
    named = Ranking(history.catalog).latest_of_run[run]
    history.append(
        f"artifacts.{run}", *decide(history.catalog.run_artifacts[run], SetAlias(0, "star", named.digest))
    )
    copy = ArtifactHistory()
    copy.catalog.load(history.catalog.dump())
    assert copy.plan().token == history.plan().token
    assert copy.catalog.aliases == history.catalog.aliases == {"star": (run, named.digest)}
    assert [place for place, _ in copy.catalog.due()] == [run]
    assert copy.catalog.due()[0][1].artifact.digest == waiting
    assert CatalogState.FromString(copy.catalog.dump()) == CatalogState.FromString(history.catalog.dump())
    best = Ranking(copy.catalog).best_of_run[run]
    assert best.step == 2


def test_the_streams_may_be_read_in_any_order(history: ArtifactHistory) -> None:
    """The service follows three streams side by side."""
    other = ArtifactHistory()
    run = history.run()
    digest = history.add(run)
    emitted = history.catalog.run_artifacts[run].artifacts[digest].productions[0]
    indexed = Fact(at=5, artifact_indexed=ArtifactIndexed(artifact=emitted, produced_at=4))
    other.append(f"artifacts.{run}", indexed)
    other.append(f"attempts.{run}", Fact(at=4, artifact_produced=emitted))
    assert other.catalog.due() == []
    assert other.catalog.run_artifacts[run].artifacts[digest].integrity == GOOD
    assert not other.catalog.has_ended(run)  # nothing is known of the run yet: nothing is taken from it


def test_of_the_runs_of_a_scope_the_newest_keep_their_tensorboard_files(history: ArtifactHistory) -> None:
    history.rule(max_tensorboard_runs=2)
    runs = [history.run() for _ in range(4)]
    files = {run: [history.add(run, kind="tensorboard") for _ in range(2)] for run in runs}
    others = [history.add(run, kind=kind) for run in runs for kind in ("video", "wandb", "checkpoint")]
    plan = history.plan()
    assert {item.artifact.digest for item in plan.items} == {*files[runs[0]], *files[runs[1]]}
    assert {(item.rule, item.scope) for item in plan.items} == {("max_tensorboard_runs=2", DEFAULT)}
    assert not set(others) & history.gone()


def test_a_run_without_such_files_takes_no_place(history: ArtifactHistory) -> None:
    history.rule(max_wandb_runs=1)
    first, second = history.run(), history.run()
    kept = history.add(first, kind="wandb")
    history.add(second, kind="tensorboard")
    assert kept not in history.gone()


def test_pinned_files_and_those_of_open_runs_stay_and_take_places(history: ArtifactHistory) -> None:
    history.rule(max_tensorboard_runs=2)
    pinned, running = history.run(), history.run(ended=False)
    old, new = history.run(), history.run()
    files = {run: history.add(run, kind="tensorboard") for run in (pinned, running, old, new)}
    history.pin(pinned, files[pinned])
    # The two places are taken, and no rule empties them.
    assert history.gone() == {files[old], files[new]}


def test_a_project_with_a_limit_of_its_own_is_counted_by_itself(history: ArtifactHistory) -> None:
    history.rule(max_tensorboard_runs=1)
    history.rule("project:atari", max_tensorboard_runs=2)
    history.rule("project:kept", max_tensorboard_runs=0)
    made: dict[str, list[str]] = {}
    for project in ("", "atari", "kept"):
        for _ in range(3):
            made.setdefault(project, []).append(history.add(history.run(project=project), kind="tensorboard"))
    assert history.gone() == {*made[""][:2], made["atari"][0]}
    counts = {(each.scope, each.kind): (each.retained, each.total) for each in runs_with(history.catalog)}
    assert counts == {(DEFAULT, "tensorboard"): (3, 3), ("project:atari", "tensorboard"): (3, 3)}
    prune(history)
    after = {each.scope: (each.retained, each.total) for each in runs_with(history.catalog)}
    assert after == {DEFAULT: (1, 3), "project:atari": (2, 3)}
    [found] = runs_with(history.catalog, DEFAULT)
    assert runs_with_text(found) == "1/3 runs with tensorboard files retained"


def test_young_files_are_spared_by_the_grace_period(history: ArtifactHistory) -> None:
    history.rule(max_tensorboard_runs=1, grace_seconds=3600.0)
    old, young = (
        history.add(history.run(), kind="tensorboard", at=NOW - age) for age in (2 * HOUR, HOUR // 2)
    )
    history.add(history.run(), kind="tensorboard", at=NOW)
    assert history.gone() == {old}
    assert young not in history.gone()


def test_the_status_of_a_run_counts_what_was_pruned_until_it_is_back(history: ArtifactHistory) -> None:
    history.rule(max_videos_per_run=2)
    run = history.run()
    videos = [history.add(run, step=step, size=7) for step in range(5)]
    prune(history, at=NOW)
    found = status(history.catalog, run)
    assert (found.pruned_bytes, found.last_pruned_at) == (21, NOW)
    assert retained_parts(found) == ["2/5 videos"]
    entry = history.catalog.run_artifacts[run]
    history.append(f"artifacts.{run}", *decide(entry, Restore(NOW + 1, frozenset(videos[:1]))))
    history.append(f"artifacts.{run}", *decide(entry, Erase(NOW + HOUR, videos[1])))
    found = status(history.catalog, run)
    assert (found.pruned_bytes, found.last_pruned_at) == (14, NOW)
    # Produced and verified again, it is kept again.
    again = history.catalog.run_artifacts[run].artifacts[videos[1]].productions[0]
    indexed = ArtifactIndexed(artifact=again, produced_at=NOW + HOUR)
    history.append(f"artifacts.{run}", Fact(at=NOW + HOUR, artifact_indexed=indexed))
    assert status(history.catalog, run).pruned_bytes == 7


def prune(history: ArtifactHistory, at: int = NOW) -> None:
    """Append what the plan prunes."""
    for item in history.plan().items:
        target = PruneTarget(item.artifact.digest, item.rule, item.scope, item.artifact.size)
        entry = history.catalog.run_artifacts[item.artifact.run_id]
        history.append(f"artifacts.{item.artifact.run_id}", *decide(entry, Prune(at, (target,), "batch", at)))


def test_limits_of_runs_are_refused_for_a_run() -> None:
    run = "run:01JABCDEFGHJKMNPQRSTVWXYZ0"
    found = violations(run, RetentionProfile(max_tensorboard_runs=1, max_wandb_runs=0))
    assert {v.field for v in found} == {"max_tensorboard_runs", "max_wandb_runs"}
