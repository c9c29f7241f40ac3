"""What people mean when they name an artifact."""

from __future__ import annotations

import pytest

from runspine.domain.artifact.commands import MarkCorrupt, SetAlias
from runspine.domain.artifact.decide import decide
from runspine.domain.dataset_tag import dataset_tag
from runspine.services.artifacts.core.cards import card, select
from runspine.services.artifacts.core.ranking import Ranking
from runspine.services.artifacts.core.reference import SeveralMatchesError, UnknownReferenceError, resolve
from runspine.services.worker.artifacts.intents import to_value
from runspine.wire.v1.artifacts_pb2 import ListCheckpointsRequest
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, Dataset, Mode
from tests.kit.samples.catalog import ArtifactHistory


@pytest.fixture
def history() -> ArtifactHistory:
    return ArtifactHistory()


def meant(history: ArtifactHistory, text: str) -> str:
    return resolve(history.catalog, Ranking(history.catalog), text).digest


def test_a_checkpoint_has_many_names(history: ArtifactHistory) -> None:
    run = history.run()
    low = history.add(run, kind="checkpoint", step=10, score=1.0)
    high = history.add(run, kind="checkpoint", step=5, score=7.0)
    video = history.add(run, step=3)
    history.append(f"artifacts.{run}", *decide(history.catalog.run_artifacts[run], SetAlias(0, "star", low)))
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
        assert meant(history, text) == digest, text


def test_an_unknown_or_ambiguous_reference_is_refused_with_a_hint(history: ArtifactHistory) -> None:
    run = history.run()
    history.add(run)
    history.add(run, step=1)
    for text, words in {
        "": "name an artifact",
        "nothing": "no artifact, alias or run",
        "nothing:best": "no run is called",
        "Nope-v1/ppo:best": "no good checkpoint is for Nope-v1/ppo",
        f"{run}:best": "has no best checkpoint",
        f"{run}:other.mp4": "runspine artifacts",
    }.items():
        with pytest.raises(UnknownReferenceError, match=words):
            meant(history, text)
    with pytest.raises(SeveralMatchesError, match="name one"):
        meant(history, run)


def test_names_skip_what_is_corrupt(history: ArtifactHistory) -> None:
    run = history.run()
    good = history.add(run, kind="checkpoint", step=1, score=1.0)
    bad = history.add(run, kind="checkpoint", step=2, score=9.0)
    history.append(
        f"artifacts.{run}", *decide(history.catalog.run_artifacts[run], MarkCorrupt(0, bad, "gone", "scrub"))
    )
    assert {meant(history, f"{run}:{which}") for which in ("best", "latest")} == {good}
    assert meant(history, "CartPole-v1/ppo:best") == good
    assert meant(history, bad) == bad


def test_of_shared_bytes_a_good_copy_is_meant(history: ArtifactHistory) -> None:
    one, two = history.run(), history.run()
    digest = history.add(one, data="same")
    history.add(two, data="same")
    history.append(
        f"artifacts.{one}",
        *decide(history.catalog.run_artifacts[one], MarkCorrupt(0, digest, "gone", "scrub")),
    )
    assert resolve(history.catalog, Ranking(history.catalog), digest).run_id == two


def test_a_score_that_is_not_a_number_is_none(history: ArtifactHistory) -> None:
    run = history.run()
    history.add(run, kind="checkpoint", step=1, score=float("nan"))
    finite = history.add(run, kind="checkpoint", step=2, score=-5.0)
    assert meant(history, f"{run}:best") == finite


@pytest.mark.parametrize("mode", [EVALUATE, PLAY])
def test_the_file_that_an_evaluation_or_a_session_used_is_no_checkpoint_of_theirs(
    history: ArtifactHistory, mode: Mode
) -> None:
    run = history.run()
    made = history.add(run, kind="checkpoint", step=10, score=1.0, data="weights")
    user = history.run(mode=mode)
    # As earlier releases stored it: the same bytes, found in the directory of the run.
    assert history.add(user, kind="model", data="weights") == made
    ranking = Ranking(history.catalog)
    for text in (made, made[:8], "CartPole-v1/ppo:latest", "CartPole-v1/ppo:best", f"{run}:latest"):
        assert resolve(history.catalog, ranking, text).run_id == run, text
    listed = select(history.catalog, ranking, ListCheckpointsRequest(all=True), "")
    assert [artifact.run_id for artifact in listed] == [run]
    with pytest.raises(UnknownReferenceError, match="has no latest checkpoint"):
        meant(history, f"{user}:latest")


def test_checkpoints_are_listed_by_the_dataset_they_learned_from(history: ArtifactHistory) -> None:
    data, other = "a1" * 32, "b2" * 32
    tagged = history.run(dataset=Dataset(name="mixed", digest=data))
    meta = {
        name: to_value(value) for name, value in dataset_tag(history.catalog.runs[tagged].run.spec).items()
    }
    new = history.add(tagged, kind="checkpoint", meta=meta)
    old = history.add(history.run(dataset=Dataset(name="former", digest=data)), kind="checkpoint")
    history.add(history.run(dataset=Dataset(name="else", digest=other)), kind="checkpoint")
    history.add(history.run(), kind="checkpoint")

    def listed(dataset: str) -> set[str]:
        request = ListCheckpointsRequest(dataset=dataset, all=True)
        return {a.digest for a in select(history.catalog, Ranking(history.catalog), request, "")}

    assert listed("mixed") == {new}
    assert listed(data[:8]) == listed(data) == {new, old}
    assert listed("a1") == listed("nothing") == set()
    assert len(listed("")) == 4
    # What a name names now counts as well.
    history.catalog.aliases["renamed"] = (tagged, data)
    assert listed("renamed") == {new, old}
    [shown] = [
        card(history.catalog, Ranking(history.catalog), artifact)
        for artifact in history.catalog.artifacts()
        if artifact.digest == new
    ]
    assert (shown.dataset.name, shown.dataset.digest) == ("mixed", data)
