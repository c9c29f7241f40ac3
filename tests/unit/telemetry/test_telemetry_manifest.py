"""What the manifests add up to, and that a broken chain is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.domain.run.attempts import apply_attempt
from runspine.services.telemetry.core import compaction
from runspine.services.telemetry.core.batch_numbers import NumberRanges, SeenBatches
from runspine.services.telemetry.core.commit_gatherer import CommitGatherer
from runspine.services.telemetry.core.manifest import (
    FULL_INTERVAL,
    ArchiveState,
    ManifestChainError,
    pack,
    unpack,
)
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.core.visibility import cutoffs
from runspine.wire.v1.facts_pb2 import AttemptStarted, Fact, ResumedFrom
from runspine.wire.v1.manifest_pb2 import AttemptRows, Segment
from runspine.wire.v1.run_pb2 import AttemptHistory
from runspine.wire.v1.telemetry_pb2 import Batch, LogBatch, LogLine


def segment(n: int, run: str = "r", rows: int = 10) -> Segment:
    return Segment(
        run_id=run, kind="steps", key=f"telemetry/{run}/steps/{n}", rows=rows, size=100, first=n, last=n,
        attempts=[AttemptRows(attempt=1, rows=rows)],
    )  # fmt: skip


def grow(archive: ArchiveState, count: int) -> list[bytes]:
    """Commits, each with a segment, and every tenth with one that takes the place of others."""
    written = []
    for n in range(archive.number + 1, archive.number + 1 + count):
        removed = [s.key for s in archive.of("r", "steps")[:2]] if n % 10 == 0 else []
        seen = archive.seen.copy()
        seen.add("r", 1, n)
        manifest = archive.next(
            cursor=n * 5, at=n, writer="w", added=[segment(n)], removed=removed, covered=seen.covered()
        )
        data = pack(manifest)
        archive.apply(unpack(data), data)
        written.append(data)
    return written


def state(archive: ArchiveState) -> object:
    return (
        archive.number, archive.digest, archive.cursor, archive.segments,
        [c.SerializeToString() for c in archive.seen.covered()],
    )  # fmt: skip


def test_a_full_manifest_alone_gives_the_same_state_as_the_whole_chain() -> None:
    archive = ArchiveState()
    written = grow(archive, FULL_INTERVAL + 5)
    late = ArchiveState()
    for data in written[FULL_INTERVAL - 1 :]:
        late.apply(unpack(data), data)
    assert state(late) == state(archive)
    assert archive.before("r", "steps") == {1: sum(s.rows for s in archive.of("r", "steps"))}


def test_a_manifest_that_is_missing_or_changed_is_noticed() -> None:
    first, second, third = grow(ArchiveState(), 3)
    archive = ArchiveState()
    archive.apply(unpack(first), first)
    with pytest.raises(ManifestChainError, match="2 is missing"):
        archive.apply(unpack(third), third)
    forged = unpack(second)
    forged.previous = b"something else"
    with pytest.raises(ManifestChainError, match="does not follow"):
        archive.apply(forged, pack(forged))
    with pytest.raises(ManifestChainError):
        unpack(b"not a manifest")


@given(st.lists(st.integers(1, 40)))
def test_numbers_are_a_set_in_ranges(numbers: list[int]) -> None:
    ranges, known = NumberRanges(), set[int]()
    for number in numbers:
        assert ranges.add(number) == (number not in known)
        known.add(number)
        assert all((n in ranges) == (n in known) for n in range(42))
    assert all(a + 1 < b for a, b in zip(ranges.last, ranges.first[1:], strict=False))


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6))))
def test_ranges_that_touch_become_one(received: list[tuple[int, int]]) -> None:
    ranges, known = NumberRanges(), set[int]()
    for first, more in received:
        ranges.add_range(first, first + more)
        known |= set(range(first, first + more + 1))
    assert {n for n in range(50) if n in ranges} == known
    assert all(a + 1 < b for a, b in zip(ranges.last, ranges.first[1:], strict=False))


def arrival(position: int, number: int, run: str = "r", attempt: int = 1) -> Arrival:
    return Arrival(
        position, Batch(run_id=run, attempt=attempt, number=number, logs=LogBatch(lines=[LogLine()]))
    )


def test_a_batch_is_gathered_once_and_the_cursor_passes_every_message() -> None:
    gatherer = CommitGatherer(0, SeenBatches())
    assert gatherer.add(arrival(1, 1), 10, 1)
    assert not gatherer.add(arrival(2, 1), 10, 2)
    gatherer.skip(3)
    taken, covered = gatherer.cut()
    assert (taken.cursor, taken.bytes, taken.messages) == (3, 10, 3)
    assert [(c.run_id, c.attempt, list(c.last)) for c in covered] == [("r", 1, [1])]
    assert not gatherer.add(arrival(4, 1), 10, 4), "a later copy of what was taken before"
    assert gatherer.add(arrival(5, 1, attempt=2), 10, 5)


def history(*attempts: tuple[int, ResumedFrom | None]) -> AttemptHistory:
    folded = AttemptHistory()
    for number, resumed in attempts:
        started = AttemptStarted(attempt=number, resumed_from=resumed)
        apply_attempt(folded, Fact(attempt_started=started))
    return folded


def at(step: int, run: str = "r") -> ResumedFrom:
    return ResumedFrom(run_id=run, attempt=1, step=step)


def test_an_attempt_is_shown_up_to_where_the_next_went_on_from() -> None:
    assert cutoffs("r", history((1, None))) == {}
    assert cutoffs("r", history((1, None), (2, at(100)))) == {1: 100}
    assert cutoffs("r", history((1, None), (2, at(100)), (3, at(60)))) == {1: 60, 2: 60}
    assert cutoffs("r", history((1, None), (2, at(100)), (3, at(300)))) == {1: 100, 2: 300}
    assert cutoffs("r", history((1, None), (2, None))) == {1: -1}
    assert cutoffs("r", history((1, None), (2, at(50, "another run")))) == {1: -1}


def test_small_segments_are_joined_at_the_end_and_many_of_them_before() -> None:
    few, many = [segment(n) for n in range(5)], [segment(n) for n in range(40)]
    assert [len(g) for g in compaction.groups(few, ended=True)] == [5]
    assert list(compaction.groups(few, ended=False)) == []
    assert [len(g) for g in compaction.groups(many, ended=False)] == [40]
    large = [segment(n, rows=compaction.MAX_ROWS // 2) for n in range(5)]
    assert [len(g) for g in compaction.groups(large, ended=True)] == [2, 2]
