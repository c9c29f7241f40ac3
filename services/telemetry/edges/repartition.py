"""Deals an archive's runs out anew, over another number of partitions. No ingest may run meanwhile.

Segments stay where they are: only manifests are written. The new chains begin with a full manifest each,
at the oldest cursor of the old ones; what those had archived beyond it is known by its batch numbers.
Until the mark is set the old chains are the truth, from then on the new ones: killed at any moment, it
is run again.
"""

from __future__ import annotations

import time

from runspine.ranged_blobs import RangedBlobs
from runspine.wire.v1.manifest_pb2 import Manifest
from services.telemetry.core.manifest import PREFIX, Archive, chain_prefix, manifest_key, pack, partition_of
from services.telemetry.edges.chain import Chain, partitionings

# Names the number of partitions that is the truth while both exist.
MARK = "telemetry/repartitioned"


class InUse(Exception):
    """An ingest process wrote to the archive meanwhile."""


class Unfinished(Exception):
    """An earlier change to another number was begun and has to be ended first."""


async def repartition(blobs: RangedBlobs, partitions: int) -> int:
    """How many runs were dealt out, 0 when the number is the same. Raises InUse, Unfinished."""
    mark = await blobs.get(MARK)
    if mark is not None:
        partitions_decided = int(mark)
        await _finish(blobs, partitions_decided)
        if partitions_decided == partitions:
            return 0
    made_with = await partitionings(blobs)
    # Without a mark, new chains are what a process that died has left.
    await _remove(blobs, [n for n in made_with if n == partitions and len(made_with) > 1])
    others = [n for n in made_with if n != partitions]
    if len(others) > 1:
        raise Unfinished(f"a change between {others} partitions was cut short: run it again to one of these")
    if not others:
        return 0
    [old] = others
    chains = [Chain(blobs, n, old) for n in range(old)]
    for chain in chains:
        await chain.load()
    for manifest in dealt([chain.archive for chain in chains], partitions, time.time_ns() // 1000):
        await blobs.put(manifest_key(manifest.partition, partitions, 1), pack(manifest))
    if any([await chain.refresh() for chain in chains]):
        await _remove(blobs, [partitions])
        raise InUse("an ingest process is running: stop every telemetry service, then try again")
    await blobs.put(MARK, str(partitions).encode())
    await _finish(blobs, partitions)
    return len({run_id for chain in chains for run_id, _ in chain.archive.segments})


def dealt(old: list[Archive], partitions: int, at: int) -> list[Manifest]:
    """The first manifest of each new partition. Pure."""
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
