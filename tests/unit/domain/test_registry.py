from __future__ import annotations

import hashlib
from typing import Any

import pytest

from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.port import Recorded, Version
from runspine.services.orchestrator.core import registry as registry_module
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.references import resolve_references
from runspine.spec.plain import fill_value
from runspine.spec.strict_yaml import node_of
from runspine.wire.v1.facts_pb2 import (
    AliasRemoved,
    AliasSet,
    ArtifactCorrupt,
    ArtifactErased,
    ArtifactIndexed,
    ArtifactMended,
    ArtifactProduced,
    ArtifactPruned,
    ArtifactRestored,
    AttemptStarted,
    CheckpointImported,
    Fact,
    RunCompleted,
    RunSubmitted,
)
from runspine.wire.v1.spec_pb2 import Dataset, RunSpec, WarmStart

RUN, OTHER = "01J00000000000000000000AAA", "01J00000000000000000000BBB"
CHECKPOINTS = [hashlib.sha256(b"%d" % n).hexdigest() for n in range(2)]


class Paper:
    """A board that is fed fact by fact."""

    def __init__(self) -> None:
        self.board = Board()

    def append(self, subject: str, *facts: Fact) -> None:
        data = seal(Version(), facts, "c", "test")
        self.board.apply(Recorded("X", 1, subject, data, digest_of(data), 0))

    def run(self, run_id: str, name: str, *, ended: bool, digests: list[str]) -> None:
        self.append(f"runs.{run_id}", Fact(run_submitted=RunSubmitted(run_id=run_id, name=name)))
        self.append(f"attempts.{run_id}", Fact(attempt_started=AttemptStarted(attempt=1)))
        for digest in digests:
            made = ArtifactProduced(attempt=1, kind="checkpoint", digest=digest)
            self.append(f"attempts.{run_id}", Fact(artifact_produced=made))
        if ended:
            self.append(f"runs.{run_id}", Fact(run_completed=RunCompleted(attempt=1)))

    def imported(
        self, text: str, *, kind: str = "", alias: str = "", good: bool = True, **meta: object
    ) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        about = CheckpointImported(digest=digest, kind=kind, name=f"{text}.zip")
        for key, value in meta.items():
            fill_value(about.meta[key], node_of(value, key), key)
        place = f"artifacts.import-{digest[:32]}"
        self.append(place, Fact(checkpoint_imported=about))
        if good:
            produced = ArtifactProduced(digest=digest, kind=kind or "checkpoint")
            self.append(place, Fact(artifact_indexed=ArtifactIndexed(artifact=produced)))
        if alias:
            self.append(place, Fact(alias_set=AliasSet(alias=alias, digest=digest)))
        return digest

    def dataset(self, alias: str, **more: Any) -> str:
        return self.imported(f"data {alias}", kind="dataset", alias=alias, env="Pendulum-v1", **more)

    def resolved(self, **spec: object) -> RunSpec:
        found, problems = resolve_references(RunSpec(**spec), self.board)  # type: ignore[arg-type]
        assert not problems, problems
        return found

    def problem(self, **spec: object) -> tuple[str, str]:
        _, problems = resolve_references(RunSpec(**spec), self.board)  # type: ignore[arg-type]
        [problem] = problems
        return problem.field, problem.message


@pytest.fixture
def paper() -> Paper:
    return Paper()


def test_a_dataset_is_found_by_name_and_by_the_beginning_of_its_digest(paper: Paper) -> None:
    digest = paper.dataset("pendulum-mixed", env_kwargs={"g": 9.8})
    found = paper.resolved(dataset=Dataset(name="pendulum-mixed"))
    assert (found.dataset.name, found.dataset.digest) == ("pendulum-mixed", digest)
    assert (found.env, found.env_kwargs["g"].number) == ("Pendulum-v1", 9.8)
    assert paper.resolved(dataset=Dataset(name=digest[:8])).dataset.digest == digest
    assert paper.resolved(dataset=Dataset(digest=digest)).dataset.digest == digest


def test_a_dataset_that_is_not_there_names_the_nearest_one(paper: Paper) -> None:
    field, text = paper.problem(dataset=Dataset(name="pendulum"))
    assert (field, "no dataset is registered yet" in text) == ("spec.dataset.name", True)
    paper.dataset("pendulum-mixed")
    paper.imported("weights", alias="pendulum-best")
    field, text = paper.problem(dataset=Dataset(name="pendulum-mixd"))
    assert "Did you mean 'pendulum-mixed'?" in text
    assert "pendulum-best" not in text
    assert "is the alias of a checkpoint" in paper.problem(dataset=Dataset(name="pendulum-best"))[1]
    assert paper.problem(dataset=Dataset(digest="0" * 64))[0] == "spec.dataset.digest"


def test_the_env_of_a_spec_and_of_its_dataset_must_be_the_same(paper: Paper) -> None:
    paper.dataset("mixed")
    assert paper.resolved(env="Pendulum-v1", dataset=Dataset(name="mixed")).env == "Pendulum-v1"
    field, text = paper.problem(env="CartPole-v1", dataset=Dataset(name="mixed"))
    assert (field, "set env: Pendulum-v1" in text) == ("spec.env", True)


def test_a_dataset_that_cannot_be_used_is_refused_with_the_remedy(paper: Paper) -> None:
    digest = paper.dataset("mixed", good=False)
    place, wanted = f"artifacts.import-{digest[:32]}", Dataset(name="mixed")
    assert "not been verified yet" in paper.problem(dataset=wanted)[1]
    indexed = ArtifactIndexed(artifact=ArtifactProduced(digest=digest, kind="dataset"))
    paper.append(place, Fact(artifact_indexed=indexed))
    paper.append(place, Fact(artifact_corrupt=ArtifactCorrupt(digest=digest, flaw="other bytes")))
    assert "is corrupt: other bytes" in paper.problem(dataset=wanted)[1]
    paper.append(place, Fact(artifact_mended=ArtifactMended(digest=digest)))
    assert paper.resolved(dataset=wanted).dataset.digest == digest
    paper.append(place, Fact(artifact_pruned=ArtifactPruned(digest=digest, batch="B1")))
    assert "`runspine prune --undo B1` restores it" in paper.problem(dataset=wanted)[1]
    paper.append(place, Fact(artifact_restored=ArtifactRestored(digest=digest)))
    assert paper.resolved(dataset=wanted).dataset.digest == digest
    paper.append(place, Fact(artifact_erased=ArtifactErased(digest=digest)))
    assert paper.problem(dataset=Dataset(digest=digest))[0] == "spec.dataset.digest"


def test_a_name_that_moved_stands_for_its_new_dataset_only(paper: Paper) -> None:
    old, new = paper.dataset("mixed"), paper.imported("data 2", kind="dataset", alias="mixed")
    # The service removes the older alias after it has set the newer one.
    paper.append(f"artifacts.import-{old[:32]}", Fact(alias_removed=AliasRemoved(alias="mixed")))
    assert paper.resolved(dataset=Dataset(name="mixed")).dataset.digest == new


def test_a_warm_start_is_found_by_prefix_name_import_and_alias(paper: Paper) -> None:
    paper.run(RUN, "first-try", ended=True, digests=CHECKPOINTS)
    digest = paper.imported("weights", alias="champion")
    import_id = f"import-{digest[:32]}"
    paper.append(f"artifacts.{RUN}", Fact(alias_set=AliasSet(alias="mine", digest=CHECKPOINTS[0])))
    expected = {
        RUN: (RUN, "", "", ""),
        RUN[:24]: (RUN, "", "", RUN[:24]),
        "first-try": (RUN, "", "", "first-try"),
        import_id: (import_id, digest, "weights.zip", ""),
        import_id[:13]: (import_id, digest, "weights.zip", import_id[:13]),
        "champion": (import_id, digest, "weights.zip", "champion"),
        "mine": (RUN, CHECKPOINTS[0], "", "mine"),
    }
    for text, source in expected.items():
        # The name of the file is the service's to fill in.
        found = paper.resolved(warm_start=WarmStart(run_id=text, name="else")).warm_start
        assert (found.run_id, found.digest, found.name, found.given) == source


def test_a_warm_start_from_nothing_usable_names_field_and_remedy(paper: Paper) -> None:
    paper.run(RUN, "first-try", ended=True, digests=CHECKPOINTS[:1])
    paper.run(OTHER, "empty", ended=True, digests=[])
    paper.dataset("mixed")

    def problem(text: str, digest: str = "") -> tuple[str, str]:
        return paper.problem(warm_start=WarmStart(run_id=text, digest=digest))

    assert "names no run" in problem("")[1]
    assert "did you mean 'first-try'" in problem("first-tri")[1]
    assert "beginning of several ids" in problem("01J0")[1]
    assert "has ended without a checkpoint" in problem("empty")[1]
    assert "is a dataset" in problem("mixed")[1]
    field, text = problem("first-try", CHECKPOINTS[1])
    assert (field, "leave it out for the newest" in text) == ("spec.warm_start.digest", True)
    paper.run("01J00000000000000000000CCC", "young", ended=False, digests=[])
    assert paper.resolved(warm_start=WarmStart(run_id="young")).warm_start.given == "young"


def test_a_restored_board_resolves_the_same_names(paper: Paper) -> None:
    digest = paper.dataset("mixed")
    paper.imported("weights", alias="champion")
    again = Board()
    again.load(paper.board.dump())
    spec = RunSpec(dataset=Dataset(name="mixed"), warm_start=WarmStart(run_id="champion"))
    first, second = resolve_references(spec, paper.board), resolve_references(spec, again)
    assert first == second
    assert first[0].dataset.digest == digest


def test_entries_without_a_name_are_bounded_and_named_ones_stay(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "MAX_UNNAMED", 3)
    named = paper.dataset("mixed")
    digests = [paper.imported(f"data {n}", kind="dataset") for n in range(5)]
    registry = paper.board.registry
    assert registry.partial
    assert not registry.datasets(digests[0])
    assert registry.datasets(digests[4])
    assert paper.resolved(dataset=Dataset(name="mixed")).dataset.digest == named
    # Its digest proves nothing any more: the worker looks for it.
    assert paper.resolved(dataset=Dataset(digest=digests[0])).dataset.digest == digests[0]
