"""The telemetry archive in a backup: its objects, and the position after which the stream is needed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from runspine.errors import RefusedError
from runspine.storage.blobs import Blobs
from runspine.wire.v1.manifest_pb2 import Manifest, Segment

MANIFESTS = "telemetry/manifests/"


class ArchiveMovedError(Exception):
    """An object was replaced or trimmed during the read: start again."""


@dataclass(slots=True)
class Archived:
    """All partitions after their newest manifests."""

    # The manifests' keys and bytes, in order.
    manifests: dict[str, bytes] = field(default_factory=dict)
    # Objects they name: size and SHA-256 by key.
    segments: dict[str, tuple[int, str]] = field(default_factory=dict)
    cursors: list[int] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The first position of the stream that some partition has not archived."""
        return min(self.cursors, default=0) + 1

    @property
    def furthest(self) -> int:
        return max(self.cursors, default=0)


async def read_archive(blobs: Blobs) -> Archived:
    """Read all manifests. Raises ArchiveMovedError, and RefusedError during a repartition."""
    chains: dict[str, list[str]] = {}
    for key in await blobs.keys(MANIFESTS):
        chains.setdefault(key.rsplit("/", 1)[0], []).append(key)
    if len({chain.rsplit("/", 1)[1].partition("-")[0] for chain in chains}) > 1:
        raise RefusedError(
            "the telemetry archive is being repartitioned: finish that first with "
            "`python -m runspine.services.telemetry.repartition`"
        )
    archived = Archived()
    for keys in chains.values():
        await _read_chain(blobs, keys, archived)
    return archived


async def _read_chain(blobs: Blobs, keys: list[str], archived: Archived) -> None:
    """Read a chain from its newest full manifest on, found by reading backwards."""
    needed: list[tuple[str, bytes, Manifest]] = []
    for key in reversed(keys):
        data = await blobs.get(key)
        if data is None:
            raise ArchiveMovedError(key)
        needed.append((key, data, _unpack(key, data)))
        if needed[-1][2].full:
            break
    segments: dict[str, Segment] = {}
    for key, data, manifest in reversed(needed):
        archived.manifests[key] = data
        if manifest.full:
            segments.clear()
        for removed in manifest.removed:
            segments.pop(removed, None)
        segments |= {segment.key: segment for segment in manifest.added}
        # A full manifest lists removed keys for followers; its added segments are all there are.
        cursor = manifest.cursor
    archived.cursors.append(cursor)
    for segment in segments.values():
        archived.segments[segment.key] = (segment.size, segment.sha256.hex())
        if segment.levels_key:
            archived.segments[segment.levels_key] = (segment.levels_size, segment.levels_sha256.hex())


def _unpack(key: str, data: bytes) -> Manifest:
    try:
        return Manifest.FromString(zlib.decompress(data))
    except (zlib.error, DecodeError) as error:
        raise RefusedError(f"{key} cannot be read: {error}; the archive is damaged") from error
