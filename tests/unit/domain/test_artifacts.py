"""The rules of keeping, as properties and as sentences."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.domain.artifact import RunRefusedError, decide, fold
from runspine.domain.artifact.commands import (
    Activate,
    Command,
    Erase,
    Import,
    Index,
    MarkCorrupt,
    MarkGood,
    Pin,
    Prune,
    PruneTarget,
    RemoveAlias,
    Restore,
    Retire,
    SetAlias,
    Unpin,
)
from runspine.domain.artifact.decide import obstacle
from runspine.domain.artifact.evolve import FOLDED
from runspine.wire.v1.artifacts_pb2 import CORRUPT, ERASED, GOOD, KEPT, PRUNED, RunArtifacts
from runspine.wire.v1.facts_pb2 import ArtifactIndexed, ArtifactProduced, CheckpointImported, Fact
from runspine.wire.v1.spec_pb2 import Value

ONE, TWO = (hashlib.sha256(word).hexdigest() for word in (b"one", b"two"))


def produced(digest: str = ONE, **fields: Any) -> ArtifactProduced:
    return ArtifactProduced(**{"kind": "checkpoint", "name": "a.pt", "digest": digest, "size": 3, **fields})


def index(at: int, artifact: ArtifactProduced, produced_at: int) -> Index:
    return Index(at, (ArtifactIndexed(artifact=artifact, produced_at=produced_at),))


def after(*commands: Command, state: RunArtifacts | None = None) -> RunArtifacts:
    state = state or RunArtifacts()
    for command in commands:
        state = fold(decide(state, command), state)
    return state


def prune(digest: str = ONE, at: int = 10, undo_until: int = 20) -> Prune:
    return Prune(at, (PruneTarget(digest, "max_videos_per_run=2", "default"),), "B", undo_until)


INDEXED = index(1, produced(), 0)
digests = st.sampled_from([ONE, TWO])
times = st.integers(0, 50)
commands = st.one_of(
    st.builds(lambda d, at: index(at, produced(d), at), digests, times),
    st.builds(lambda d, at: index(at, produced(d, attempt=2), at), digests, times),
    st.builds(lambda d, at: MarkCorrupt(at, d, "gone", "scrub"), digests, times),
    st.builds(lambda d, at: MarkCorrupt(at, d, "gone", "index", at), digests, times),
    st.builds(lambda d, at: MarkGood(at, d, "scrub"), digests, times),
    st.builds(lambda d, at: Pin(at, d), st.sampled_from([ONE, TWO, ""]), times),
    st.builds(lambda d, at: Unpin(at, d), st.sampled_from([ONE, TWO, ""]), times),
    st.builds(lambda d, at: prune(d, at, at + 5), digests, times),
    st.builds(lambda d, at: Restore(at, frozenset(d)), st.sets(digests), times),
    st.builds(lambda d, at: Erase(at, d), digests, times),
    st.builds(lambda d, at: SetAlias(at, "star", d), digests, times),
    st.builds(lambda at: RemoveAlias(at, "star"), times),
    st.builds(lambda d, at: Activate(at, "default", d), digests, times),
    st.builds(lambda at: Retire(at, "default"), times),
    st.builds(lambda d, at: Import(at, CheckpointImported(digest=d, name="x.zip")), digests, times),
)


@given(st.lists(commands, max_size=25))
def test_whatever_is_asked_what_is_decided_can_be_folded_and_asking_twice_is_asking_once(
    asked: list[Command],
) -> None:
    state = RunArtifacts()
    for command in asked:
        try:
            facts = decide(state, command)
        except RunRefusedError:
            continue
        state = fold(facts, state)
        assert decide(state, command) == []
        held = [a for a in state.artifacts.values() if a.pinned or a.aliases or a.actors]
        assert all(a.keeping == KEPT for a in held)


@given(st.lists(commands, max_size=25))
def test_folding_one_by_one_and_all_at_once_give_the_same(asked: list[Command]) -> None:
    state, facts = RunArtifacts(), []
    for command in asked:
        try:
            decided = decide(state, command)
        except RunRefusedError:
            continue
        facts += decided
        state = fold(decided, state)
    assert fold(facts) == state


def test_every_fact_of_the_stream_is_folded() -> None:
    fields = Fact.DESCRIPTOR.oneofs_by_name["kind"].fields
    of_artifacts = {field.name for field in fields if 60 <= field.number < 90}
    assert of_artifacts == FOLDED | {"retention_set", "janitor_elected", "janitor_resigned"}


def test_several_are_indexed_in_one_commit_and_each_once() -> None:
    one, two = (ArtifactIndexed(artifact=produced(digest)) for digest in (ONE, TWO))
    facts = decide(RunArtifacts(), Index(1, (one, two, one)))
    assert [fact.artifact_indexed.artifact.digest for fact in facts] == [ONE, TWO]


def test_a_pin_set_after_the_plan_was_made_wins() -> None:
    state = after(INDEXED, Pin(2, ONE))
    assert decide(state, prune()) == []
    assert decide(after(INDEXED, Pin(2)), prune()) == []
    assert after(INDEXED, Pin(2, ONE), Unpin(3, ONE), prune()).artifacts[ONE].keeping == PRUNED


def test_an_undo_and_an_erasure_exclude_each_other() -> None:
    pruned = after(INDEXED, prune())
    erased = after(Erase(21, ONE), state=pruned)
    assert erased.artifacts[ONE].keeping == ERASED
    assert decide(erased, Restore(22, frozenset([ONE]))) == []
    restored = after(Restore(21, frozenset([ONE])), state=pruned)
    assert decide(restored, Erase(22, ONE)) == []
    with pytest.raises(RunRefusedError, match="can still be restored"):
        decide(pruned, Erase(19, ONE))


def test_the_same_bytes_made_again_are_kept_again() -> None:
    again = index(30, produced(attempt=2), 29)
    assert after(INDEXED, prune(), again).artifacts[ONE].keeping == KEPT
    assert decide(after(INDEXED), INDEXED) == []


def test_bytes_that_were_reported_again_and_are_missing_are_corrupt_not_pruned() -> None:
    erased = after(INDEXED, prune(), Erase(21, ONE))
    assert decide(erased, MarkCorrupt(30, ONE, "gone", "scrub")) == []
    claimed = after(MarkCorrupt(30, ONE, "gone", "index", 25), state=erased)
    assert (claimed.artifacts[ONE].keeping, claimed.artifacts[ONE].integrity) == (KEPT, CORRUPT)
    assert decide(claimed, MarkCorrupt(31, ONE, "gone", "index", 25)) == []


def test_what_is_corrupt_is_not_loaded_until_it_reads_well_again() -> None:
    corrupt = after(INDEXED, MarkCorrupt(2, ONE, "SHA-256 differs", "scrub"))
    assert corrupt.artifacts[ONE].integrity == CORRUPT
    assert "SHA-256 differs" in obstacle(corrupt.artifacts[ONE])
    for command in (SetAlias(3, "star", ONE), Activate(3, "default", ONE)):
        with pytest.raises(RunRefusedError, match="corrupt"):
            decide(corrupt, command)
    assert after(MarkGood(4, ONE, "verify"), state=corrupt).artifacts[ONE].integrity == GOOD


def test_a_checkpoint_that_is_also_called_something_else_stays_a_checkpoint() -> None:
    other = produced(kind="model", name="final.bin")
    state = after(index(1, produced(), 1), index(2, other, 2))
    assert state.artifacts[ONE].kind == "checkpoint"
    assert after(index(1, other, 1), index(2, produced(), 2)).artifacts[ONE].kind == "checkpoint"


def test_nan_in_the_meta_of_an_artifact_does_not_make_it_new_each_time() -> None:
    artifact = produced(meta={"return_mean": Value(number=float("nan"))})
    assert decide(after(index(1, artifact, 0)), index(2, artifact, 0)) == []


def test_an_undo_sets_the_aliases_again_that_were_removed_with_a_prune() -> None:
    named = after(INDEXED, SetAlias(2, "mixed", ONE), SetAlias(2, "best", ONE))
    assert decide(named, prune()) == []
    target = PruneTarget(ONE, "by hand", "", with_aliases=True)
    pruned = after(Prune(10, (target,), "B", 20), state=named)
    artifact = pruned.artifacts[ONE]
    assert (artifact.keeping, list(artifact.aliases)) == (PRUNED, [])
    # One of the names was given to something else meanwhile.
    restored = after(Restore(11, frozenset([ONE]), taken=frozenset(["best"])), state=pruned)
    artifact = restored.artifacts[ONE]
    assert (artifact.keeping, list(artifact.aliases), list(artifact.pruned_aliases)) == (KEPT, ["mixed"], [])
