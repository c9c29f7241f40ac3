"""Which checkpoint an actor plays with in which env, from old facts and new ones."""

from __future__ import annotations

import pytest

from runspine.domain.artifact.commands import Activate, Retire
from runspine.domain.artifact.decide import decide
from runspine.services.artifacts.core.activations import activation_of, activations
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking
from runspine.wire.v1.artifacts_pb2 import CatalogState, Place
from tests.kit.samples.catalog import ArtifactHistory

POLE, LAKE = "CartPole-v1", "FrozenLake-v1"


def activate(history: ArtifactHistory, run: str, digest: str, env: str = "", actor: str = "default") -> None:
    """As the service does: the new one, then the end of the one before in the same env."""
    made_for = history.catalog.runs[run].run.spec.env
    before = activation_of(history.catalog, Ranking(history.catalog), actor, made_for)
    command = Activate(0, actor, digest, env=env)
    history.append(f"artifacts.{run}", *decide(history.catalog.run_artifacts[run], command))
    if before is not None and before.artifact.run_id != run:
        state = history.catalog.run_artifacts[before.artifact.run_id]
        facts = decide(state, Retire(0, actor, before.recorded_env))
        history.append(f"artifacts.{before.artifact.run_id}", *facts)


def playing(catalog: ArtifactCatalog) -> dict[tuple[str, str], str]:
    return {(a.actor, a.env): a.artifact.digest for a in activations(catalog, Ranking(catalog))}


@pytest.mark.parametrize("old", [True, False])
def test_an_actor_has_one_checkpoint_in_each_env(old: bool) -> None:
    history = ArtifactHistory()
    runs = [history.run(env=env) for env in (POLE, LAKE, POLE)]
    pole, lake, other = (history.add(run, kind="checkpoint") for run in runs)
    activate(history, runs[0], pole, env="" if old else POLE)
    activate(history, runs[1], lake, env=LAKE)
    assert playing(history.catalog) == {("default", POLE): pole, ("default", LAKE): lake}
    activate(history, runs[2], other, env=POLE)
    assert playing(history.catalog) == {("default", POLE): other, ("default", LAKE): lake}
    assert not history.catalog.run_artifacts[runs[0]].artifacts[pole].actors, "no longer held"
    again = ArtifactCatalog()
    again.load(history.catalog.dump())
    assert playing(again) == playing(history.catalog)


def test_old_facts_without_an_env_fold_as_they_did_one_for_each_name() -> None:
    history = ArtifactHistory()
    runs = [history.run(env=env) for env in (POLE, LAKE)]
    pole, lake = (history.add(run, kind="checkpoint") for run in runs)
    for run, digest in zip(runs, (pole, lake), strict=True):
        facts = decide(history.catalog.run_artifacts[run], Activate(0, "default", digest))
        assert not facts[0].checkpoint_activated.env
        history.append(f"artifacts.{run}", *facts)
    retired = decide(history.catalog.run_artifacts[runs[0]], Retire(0, "default"))
    history.append(f"artifacts.{runs[0]}", *retired)
    assert playing(history.catalog) == {("default", LAKE): lake}
    state = CatalogState.FromString(history.catalog.dump())
    del state.activated[:]
    state.actors["default"].CopyFrom(Place(run_id=runs[1], digest=lake))
    older = ArtifactCatalog()
    older.load(state.SerializeToString())
    assert playing(older) == {("default", LAKE): lake}, "a snapshot of an earlier release"


def test_a_newer_activation_in_the_same_run_replaces_an_old_fact() -> None:
    history = ArtifactHistory()
    run = history.run(env=POLE)
    first, second = history.add(run, kind="checkpoint"), history.add(run, kind="checkpoint", step=1)
    activate(history, run, first)
    activate(history, run, second, env=POLE)
    assert playing(history.catalog) == {("default", POLE): second}
    assert list(history.catalog.actors) == [("default", POLE)]
