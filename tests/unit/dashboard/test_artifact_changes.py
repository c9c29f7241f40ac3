"""Pages draw the files of a run again exactly when the log has a new fact about them."""

from __future__ import annotations

from runspine.services.dashboard.core.artifact_changes import ArtifactChanges
from runspine.wire.v1.trainer_pb2 import WatchResponse


def change(run_id: str, position: int) -> WatchResponse:
    return WatchResponse(stream="ARTIFACTS", subject=f"artifacts.{run_id}", position=position)


def test_a_fact_changes_the_number_of_its_own_run_alone() -> None:
    changes = ArtifactChanges()
    assert changes.of("a") == 0
    changes.apply(change("a", 7))
    drawn = changes.of("a")
    changes.apply(change("b", 9))
    assert changes.of("a") == drawn == 7
    changes.apply(change("a", 12))
    assert changes.of("a") != drawn


def test_the_position_to_go_on_from_is_that_of_the_newest_fact_of_any_run() -> None:
    changes = ArtifactChanges()
    for run_id, position in (("a", 7), ("retention", 9), ("b", 8)):
        changes.apply(change(run_id, position))
    assert changes.position == 9
