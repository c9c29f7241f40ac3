"""Selection of segments to join into a larger one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from runspine.services.telemetry.core.rows import LOGS
from runspine.wire.v1.manifest_pb2 import Segment

# Limits of a joined segment, which is made in memory.
MAX_ROWS = 1 << 20
MAX_BYTES = 64 << 20
# Log lines compress so well that their size in memory is what counts.
MAX_LOG_BYTES = 32 << 20
# Assumed of a segment without a recorded size in memory.
MAX_COMPRESSION = 32
# Segments that are joined at once while the run is under way.
MIN_GROUP = 32


def groups(segments: Sequence[Segment], ended: bool) -> Iterator[list[Segment]]:
    """Groups of adjacent segments of one variant that fit into one, oldest first."""
    variants: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        variants[segment.variant].append(segment)
    for members in variants.values():
        for group in _fitting(members):
            if len(group) >= (2 if ended else MIN_GROUP):
                yield group


def _fitting(members: list[Segment]) -> Iterator[list[Segment]]:
    group: list[Segment] = []
    for segment in members:
        rows = sum(s.rows for s in group) + segment.rows
        size = sum(s.size for s in group) + segment.size
        full = rows > MAX_ROWS or size > MAX_BYTES
        if segment.kind == LOGS:
            full |= sum(map(_raw_size, group)) + _raw_size(segment) > MAX_LOG_BYTES
        if group and full:
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _raw_size(segment: Segment) -> int:
    return int(segment.raw_size or segment.size * MAX_COMPRESSION)
