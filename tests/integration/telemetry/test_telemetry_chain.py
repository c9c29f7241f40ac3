"""Manifests in a real bucket: one writer wins, and a late one always notices."""

from __future__ import annotations

import uuid

import pytest

from runspine.services.telemetry.core.manifest import (
    FULL_INTERVAL,
    ManifestChainError,
    manifest_key,
    partition_of,
)
from runspine.services.telemetry.edges import manifest_chain as chains
from runspine.services.telemetry.edges.manifest_chain import (
    ArchiveCatalog,
    CommitLostError,
    ManifestChain,
    PartitionCountError,
)
from runspine.services.telemetry.edges.repartition import ArchiveInUseError, repartition
from runspine.storage.ranged_blobs import RangedS3Blobs
from runspine.wire.v1.manifest_pb2 import Covered, Segment
from tests.kit.servers.s3 import S3Server


@pytest.fixture
async def blobs(s3_server: S3Server) -> RangedS3Blobs:
    await s3_server.ready()
    bucket = f"t-{uuid.uuid4().hex[:12]}"
    made = RangedS3Blobs(s3_server.settings().model_copy(update={"s3_bucket": bucket}))
    await made.ensure_bucket()
    return made


async def commit(chain: ManifestChain, writer: str, cursor: int = 0) -> None:
    await chain.commit(chain.archive.next(cursor=cursor or chain.archive.cursor + 1, at=1, writer=writer))


async def opened(blobs: RangedS3Blobs) -> ManifestChain:
    chain = ManifestChain(blobs, 0, 1)
    await chain.load()
    return chain


async def test_an_object_is_written_once_and_read_in_part(blobs: RangedS3Blobs) -> None:
    assert await blobs.put_new("a", b"0123456789")
    assert not await blobs.put_new("a", b"something else")
    assert await blobs.put_new("a", b"0123456789"), "the same again is an answer that was lost"
    assert blobs.read_range("a", 3, 4) == b"3456"
    assert blobs.read_range("b", 0, 1) is None
    assert [aged.key for aged in await blobs.aged("")] == ["a"]


async def test_of_two_writers_one_commits_and_the_other_gets_an_error(blobs: RangedS3Blobs) -> None:
    first, second = await opened(blobs), await opened(blobs)
    await commit(first, "first", cursor=10)
    with pytest.raises(CommitLostError):
        await commit(second, "second", cursor=20)
    assert second.archive.cursor == 0
    assert await second.refresh()
    assert second.archive.cursor == 10
    await commit(second, "second", cursor=20)
    assert await first.refresh()
    assert (first.archive.number, first.archive.digest) == (2, second.archive.digest)


async def test_a_chain_is_read_from_its_newest_full_manifest(blobs: RangedS3Blobs) -> None:
    chain = await opened(blobs)
    for _ in range(FULL_INTERVAL + 3):
        await commit(chain, "w")
    await blobs.delete(manifest_key(0, 1, 5))
    fresh = await opened(blobs)
    assert (fresh.archive.number, fresh.archive.cursor) == (FULL_INTERVAL + 3, FULL_INTERVAL + 3)
    await blobs.delete(manifest_key(0, 1, FULL_INTERVAL + 1))
    with pytest.raises(ManifestChainError, match="missing"):
        await opened(blobs)


async def test_a_writer_that_slept_cannot_commit_where_old_manifests_were_removed(
    blobs: RangedS3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    awake, asleep = await opened(blobs), await opened(blobs)
    await commit(awake, "awake")
    assert await asleep.refresh()
    for _ in range(2 * FULL_INTERVAL):
        await commit(awake, "awake")
    await blobs.delete(manifest_key(0, 1, 2))
    monkeypatch.setattr(chains, "MAX_CERTAIN_SECONDS", 0.0)
    with pytest.raises(CommitLostError):
        await commit(asleep, "asleep", cursor=999)
    assert asleep.archive.cursor == awake.archive.cursor
    assert await blobs.get(manifest_key(0, 1, 2)) is None


async def test_another_number_of_partitions_is_refused_with_the_setting_to_change(
    blobs: RangedS3Blobs,
) -> None:
    await commit(await opened(blobs), "w")
    await ArchiveCatalog(blobs, 1).check_partitions()
    with pytest.raises(PartitionCountError, match=r"RUNSPINE_INGEST_PARTITIONS=1.*telemetry\.repartition"):
        await ArchiveCatalog(blobs, 2).check_partitions()


async def filled(blobs: RangedS3Blobs, partitions: int) -> dict[str, str]:
    """Runs with a segment each, in partitions whose cursors differ; the keys by run."""
    keys = {}  # type: ignore[var-annotated]
    for partition in range(partitions):
        chain = ManifestChain(blobs, partition, partitions)
        await chain.load()
        runs = [f"run{n}" for n in range(20) if partition_of(f"run{n}", partitions) == partition]
        added = [
            Segment(run_id=run, kind="logs", key=f"telemetry/{run}/logs/a", first=1, last=9) for run in runs
        ]
        covered = [Covered(run_id=run, attempt=1, first=[1], last=[7]) for run in runs]
        next_one = chain.archive.next(cursor=10 + partition, at=1, writer="w", added=added, covered=covered)
        await chain.commit(next_one)
        keys |= {segment.run_id: segment.key for segment in added}
    return keys


async def received(blobs: RangedS3Blobs, partitions: int) -> dict[str, str]:
    await ArchiveCatalog(blobs, partitions).check_partitions()
    keys: dict[str, str] = {}
    for partition in range(partitions):
        chain = ManifestChain(blobs, partition, partitions)
        await chain.load()
        assert chain.archive.cursor == 10, "what any of them had not archived is read again"
        for run, _ in chain.archive.segments:
            assert partition_of(run, partitions) == partition
            [segment] = chain.archive.of(run, "logs")
            keys[run] = segment.key
            assert not chain.archive.seen.copy().add(run, 1, 7), "and what was archived is known"
            assert chain.archive.seen.copy().add(run, 1, 8)
        await commit(chain, "w")
        await ManifestChain(blobs, partition, partitions).load()
    return keys


async def test_an_archive_is_distributed_over_more_or_fewer_partitions(blobs: RangedS3Blobs) -> None:
    keys = await filled(blobs, 2)
    assert await repartition(blobs, 3) == 20
    assert await received(blobs, 3) == keys
    assert await repartition(blobs, 3) == 0


@pytest.mark.parametrize("puts", [1, 2, 3, 4])
async def test_dealing_out_that_was_killed_is_done_again(
    blobs: RangedS3Blobs, monkeypatch: pytest.MonkeyPatch, puts: int
) -> None:
    keys = await filled(blobs, 1)
    original, left = blobs.put, [puts]

    async def die(key: str, data: bytes) -> None:
        await original(key, data)
        left[0] -= 1
        if not left[0]:
            raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(blobs, "put", die)
        with pytest.raises(RuntimeError, match="killed"):
            await repartition(blobs, 3)
    with pytest.raises(PartitionCountError):
        await ArchiveCatalog(blobs, 3).check_partitions()
    await repartition(blobs, 3)
    assert await received(blobs, 3) == keys


async def test_an_archive_that_is_being_written_is_not_repartitioned(
    blobs: RangedS3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, original = await filled(blobs, 1), blobs.put

    async def meanwhile(key: str, data: bytes) -> None:
        await original(key, data)
        await commit(await opened(blobs), "somebody", cursor=10)

    with monkeypatch.context() as patched:
        patched.setattr(blobs, "put", meanwhile)
        with pytest.raises(ArchiveInUseError, match="stop every telemetry service"):
            await repartition(blobs, 2)
    assert await received(blobs, 1) == keys
