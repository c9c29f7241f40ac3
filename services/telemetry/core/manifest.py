"""The archive as a fold of its manifests, a chain of commits for each partition. Pure."""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from runspine.services.telemetry.core.batch_numbers import SeenBatches
from runspine.wire.v1.manifest_pb2 import Covered, Manifest, Segment

PREFIX = "telemetry/manifests/"
FULL_INTERVAL = 64


class ManifestChainError(Exception):
    """The manifests do not form a whole chain."""


def partition_of(run_id: str, partitions: int) -> int:
    return zlib.crc32(run_id.encode()) % partitions


def chain_prefix(partition: int, partitions: int) -> str:
    return f"{PREFIX}{partitions}-{partition}/"


def manifest_key(partition: int, partitions: int, number: int) -> str:
    return f"{chain_prefix(partition, partitions)}{number:012d}"


@dataclass(slots=True)
class ArchiveState:
    """The state of one partition after a manifest. Tuples in `segments` are replaced, never changed."""

    partition: int = 0
    partitions: int = 1
    number: int = 0
    digest: bytes = b""
    cursor: int = 0
    at: int = 0
    seen: SeenBatches = field(default_factory=SeenBatches)
    segments: dict[tuple[str, str], tuple[Segment, ...]] = field(default_factory=dict)

    def of(self, run_id: str, kind: str) -> tuple[Segment, ...]:
        """A run's segments of one kind, oldest first."""
        return self.segments.get((run_id, kind), ())

    def before(self, run_id: str, kind: str) -> dict[int, int]:
        """Number of archived rows of a kind, by attempt."""
        counts: dict[int, int] = defaultdict(int)
        for segment in self.of(run_id, kind):
            for entry in segment.attempts:
                counts[entry.attempt] += entry.rows
        return dict(counts)

    def apply(self, manifest: Manifest, data: bytes) -> None:
        """Fold the next manifest in, or a full one after any. Raises ManifestChainError."""
        if not manifest.full and manifest.number != self.number + 1:
            raise ManifestChainError(f"manifest {self.number + 1} is missing: {manifest.number} is next")
        if manifest.number == self.number + 1 and self.number and manifest.previous != self.digest:
            raise ManifestChainError(f"manifest {manifest.number} does not follow the one before it")
        if manifest.full:
            self.segments, self.seen = {}, SeenBatches()
        self._change(manifest.added, set(manifest.removed))
        self.seen.cover(manifest.covered)
        self.number, self.digest = manifest.number, hashlib.sha256(data).digest()
        self.cursor, self.at = manifest.cursor, manifest.at

    def _change(self, added: Iterable[Segment], removed: set[str]) -> None:
        fresh: dict[tuple[str, str], list[Segment]] = defaultdict(list)
        for segment in added:
            fresh[segment.run_id, segment.kind].append(segment)
        # telemetry/<run>/<kind>/<name>
        touched = {tuple(key.split("/")[1:3]) for key in removed} | set(fresh)
        for run_kind in touched:
            run_id, kind = run_kind
            kept = [s for s in self.segments.get((run_id, kind), ()) if s.key not in removed]
            kept += fresh.get((run_id, kind), [])
            self.segments[run_id, kind] = tuple(sorted(kept, key=lambda s: (s.first, s.key)))

    def next(
        self,
        *,
        cursor: int,
        at: int,
        writer: str,
        added: Sequence[Segment] = (),
        removed: Sequence[str] = (),
        covered: Sequence[Covered] = (),
    ) -> Manifest:
        """The manifest that commits these changes."""
        number = self.number + 1
        manifest = Manifest(
            number=number,
            previous=self.digest,
            partition=self.partition,
            partitions=self.partitions,
            cursor=cursor,
            at=at,
            writer=writer,
        )
        if number % FULL_INTERVAL:
            manifest.added.extend(added)
            manifest.removed.extend(removed)
            manifest.covered.extend(covered)
            return manifest
        whole = ArchiveState(seen=self.seen.copy(), segments=dict(self.segments))
        whole._change(added, set(removed))
        whole.seen.cover(covered)
        manifest.full = True
        manifest.added.extend(segment for group in whole.segments.values() for segment in group)
        manifest.removed.extend(removed)
        manifest.covered.extend(whole.seen.covered())
        return manifest


def pack(manifest: Manifest) -> bytes:
    return zlib.compress(manifest.SerializeToString(deterministic=True), 6)


def unpack(data: bytes) -> Manifest:
    try:
        return Manifest.FromString(zlib.decompress(data))
    except (zlib.error, DecodeError) as error:
        raise ManifestChainError("a manifest cannot be read") from error
