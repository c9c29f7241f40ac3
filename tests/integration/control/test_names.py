"""Names in specs, looked up by an orchestrator with a real server. The test plays the artifacts service."""

from __future__ import annotations

import hashlib

import grpc
import pytest

from runspine.eventlog import UnknownOutcomeError
from runspine.eventlog.memory import MemoryLog
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import artifacts_subject
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.edges import name_lookup
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import (
    AliasSet,
    ArtifactIndexed,
    ArtifactProduced,
    CheckpointImported,
    Fact,
)
from runspine.wire.v1.spec_pb2 import Dataset, RunSpec, WarmStart
from tests.kit.orchestrator import Orchestrator
from tests.kit.played_worker import PlayedWorker, spec, submit


def imported(text: str, kind: str, alias: str) -> tuple[str, list[Fact]]:
    """The id of an import, and the facts about it."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    about = CheckpointImported(digest=digest, kind=kind, name=f"{text}.pt", env="Pendulum-v1")
    produced = ArtifactProduced(digest=digest, kind=kind or "checkpoint")
    return f"import-{digest[:32]}", [
        Fact(at=1, checkpoint_imported=about),
        Fact(at=2, artifact_indexed=ArtifactIndexed(artifact=produced)),
        Fact(at=3, alias_set=AliasSet(alias=alias, digest=digest)),
    ]


async def append(worker: PlayedWorker, place: str, facts: list[Fact]) -> None:
    for fact in facts:
        await worker.emit(artifacts_subject(place), fact)


async def test_what_was_registered_a_moment_ago_is_found_and_stored_with_the_run(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    source, facts = imported("weights", "", "champion")
    await append(worker, source, facts)
    run = submit(stub, warm_start=WarmStart(run_id="champion"))
    stored = run.spec.warm_start
    assert (stored.run_id, stored.name, stored.given) == (source, "weights.pt", "champion")
    for n in range(20):
        place, facts = imported(f"data {n}", "dataset", f"mixed-{n}")
        await append(worker, place, facts)
        wanted = RunSpec(runner="corl", algo="bc", total_steps=10, dataset=Dataset(name=f"mixed-{n}"))
        # Each was appended just before: an answer from an older board would not know it.
        answer = stub.Validate(wire.ValidateRequest(spec=wanted))
        assert answer.spec.dataset.digest == facts[0].checkpoint_imported.digest
        assert answer.spec.env == "Pendulum-v1"
    again = stub.Resubmit(wire.ResubmitRequest(run_id=run.id)).run
    assert again.spec.warm_start == stored
    for wrong, field in (
        (spec(warm_start=WarmStart(run_id="champoin")), "spec.warm_start.run_id"),
        (spec(runner="corl", algo="bc", command=[], dataset=Dataset(name="mixed")), "spec.dataset.name"),
    ):
        with pytest.raises(grpc.RpcError) as error:
            stub.Validate(wire.ValidateRequest(spec=wrong))
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert field in error.value.details()  # type: ignore[operator]
        assert "did you mean" in error.value.details().lower()  # type: ignore[union-attr]


async def test_a_board_behind_the_log_is_an_unknown_answer_and_never_a_wrong_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(name_lookup, "CATCH_UP_SECONDS", 0.05)
    log, board = MemoryLog(), Board()
    projector = Projector(log, None, board)
    await projector.start()
    place, facts = imported("data", "dataset", "mixed")
    _, version = await log.read(artifacts_subject(place))
    await log.append(artifacts_subject(place), facts, expected=version)
    wanted = RunSpec(runner="corl", dataset=Dataset(name="mixed"))
    with pytest.raises(UnknownOutcomeError, match="ARTIFACTS is read up to 0 of 1"):
        await name_lookup.look_up_names(log, projector, board, wanted)
    # A spec without names does not wait for any of it.
    assert (await name_lookup.look_up_names(log, projector, board, RunSpec(runner="script")))[1] == []
    await projector.start()
    found, problems = await name_lookup.look_up_names(log, projector, board, wanted)
    assert (problems, found.dataset.digest) == ([], facts[0].checkpoint_imported.digest)
