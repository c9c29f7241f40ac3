"""Distributes the runs of an archive over another number of partitions. No ingest may run meanwhile.

Segments stay where they are: only manifests are written. Each new chain begins with a full manifest at the
oldest cursor of the old chains; batches that were archived after it are known by their numbers.
The old chains are valid until the mark is set, the new ones from then on. After a crash at any moment, run
it again.
"""

from __future__ import annotations

from runspine.clock import now_micros
from runspine.services.telemetry.core.manifest import (
    PREFIX,
    ArchiveState,
    chain_prefix,
    manifest_key,
    pack,
    partition_of,
)
from runspine.services.telemetry.edges.manifest_chain import ManifestChain, partitionings
from runspine.storage.ranged_blobs import RangedBlobs
from runspine.wire.v1.manifest_pb2 import Manifest

# Holds the number of partitions that is valid while chains of both numbers exist.
MARK = "telemetry/repartitioned"


class ArchiveInUseError(Exception):
    """An ingest process wrote to the archive meanwhile."""


class RepartitionUnfinishedError(Exception):
    """An earlier change to another number of partitions is unfinished and must be finished first."""


async def repartition(blobs: RangedBlobs, partitions: int) -> int:
    """Returns how many runs were distributed, 0 when the number is unchanged.

    Raises ArchiveInUseError, RepartitionUnfinishedError.
    """
    mark = await blobs.get(MARK)
    if mark is not None:
        partitions_decided = int(mark)
        await _finish(blobs, partitions_decided)
        if partitions_decided == partitions:
            return 0
    made_with = await partitionings(blobs)
    # Without a mark, new chains were left behind by a process that was killed.
    await _remove(blobs, [n for n in made_with if n == partitions and len(made_with) > 1])
    others = [n for n in made_with if n != partitions]
    if len(others) > 1:
        raise RepartitionUnfinishedError(
            f"a change between {others} partitions is unfinished: run it again with one of these numbers"
        )
    if not others:
        return 0
    [old] = others
    chains = [ManifestChain(blobs, n, old) for n in range(old)]
    for chain in chains:
        await chain.load()
    for manifest in first_manifests([chain.archive for chain in chains], partitions, now_micros()):
        await blobs.put(manifest_key(manifest.partition, partitions, 1), pack(manifest))
    if any([await chain.refresh() for chain in chains]):
        await _remove(blobs, [partitions])
        raise ArchiveInUseError("an ingest process is running: stop every telemetry service, then try again")
    await blobs.put(MARK, str(partitions).encode())
    await _finish(blobs, partitions)
    return len({run_id for chain in chains for run_id, _ in chain.archive.segments})


def first_manifests(old: list[ArchiveState], partitions: int, at: int) -> list[Manifest]:
    """The first manifest of each new partition."""
    cursor = min(archive.cursor for archive in old)
    manifests = [
        Manifest(
            number=1,
            partition=n,
            partitions=partitions,
            cursor=cursor,
            full=True,
            at=at,
            writer="repartition",
        )
        for n in range(partitions)
    ]
    for archive in old:
        for (run_id, _), found in archive.segments.items():
            manifests[partition_of(run_id, partitions)].added.extend(found)
        for covered in archive.seen.covered():
            manifests[partition_of(covered.run_id, partitions)].covered.append(covered)
    return manifests


async def _finish(blobs: RangedBlobs, partitions: int) -> None:
    await _remove(blobs, [n for n in await partitionings(blobs) if n != partitions])
    await blobs.delete(MARK)


async def _remove(blobs: RangedBlobs, partitionings: list[int]) -> None:
    for key in await blobs.keys(PREFIX):
        if any(key.startswith(chain_prefix(0, n).removesuffix("0/")) for n in partitionings):
            await blobs.delete(key)
