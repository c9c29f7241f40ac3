"""Which segments to join into one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from runspine.wire.v1.manifest_pb2 import Segment

# As large as a joined segment may become: it is made in memory.
MOST_ROWS = 1 << 20
MOST_BYTES = 64 << 20
# While a run goes on, so many small ones come together first.
ENOUGH = 32


def groups(segments: Sequence[Segment], ended: bool) -> Iterator[list[Segment]]:
    """Neighbours of one variant that fit together, oldest first."""
    variants: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        variants[segment.variant].append(segment)
    for members in variants.values():
        for group in _fitting(members):
            if len(group) >= (2 if ended else ENOUGH):
                yield group


def _fitting(members: list[Segment]) -> Iterator[list[Segment]]:
    group: list[Segment] = []
    for segment in members:
        rows = sum(s.rows for s in group) + segment.rows
        size = sum(s.size for s in group) + segment.size
        if group and (rows > MOST_ROWS or size > MOST_BYTES):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group
