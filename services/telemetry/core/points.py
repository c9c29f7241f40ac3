"""Points of series as columns of bytes, for readers that want every one of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from runspine.services.telemetry.core.levels import DERIVED, Stretch, stretches
from runspine.services.telemetry.core.rows import STEPS
from runspine.services.telemetry.core.visibility import Cutoffs
from runspine.wire.v1.telemetry_pb2 import PointBlock


def is_wanted(kind: str, name: str, names: Collection[str]) -> bool:
    """Whether a series of a table of this kind is among the names; without names every one is."""
    return DERIVED.get(name, kind) == kind and (not names or name in names)


def point_blocks(
    kind: str, table: pa.Table, names: Collection[str], cutoffs: Cutoffs, with_times: bool
) -> list[PointBlock]:
    """The visible points of a table, in its row order."""
    return [
        PointBlock(
            name=stretch.name,
            values=stretch.values.astype("<f8", copy=False).tobytes(),
            steps=stretch.steps.astype("<u8", copy=False).tobytes(),
            at=stretch.at.astype("<i8", copy=False).tobytes() if with_times else b"",
        )
        for stretch in _visible(kind, table, names, cutoffs)
    ]


def _visible(kind: str, table: pa.Table, names: Collection[str], cutoffs: Cutoffs) -> Iterator[Stretch]:
    only = next(iter(names)) if len(names) == 1 else None
    for stretch in stretches(kind, table, only=only):
        if not is_wanted(kind, stretch.name, names):
            continue
        cutoff = cutoffs.get(stretch.attempt)
        if cutoff is not None:
            # A checkpoint after n steps does not contain the step that begins at counter n.
            stretch = _until(stretch, cutoff - 1 if kind == STEPS else cutoff)
        if len(stretch.values):
            yield stretch


def _until(stretch: Stretch, cutoff: int) -> Stretch:
    """The points up to a step."""
    keep = slice(0, 0) if cutoff < 0 else stretch.steps <= cutoff
    return stretch._replace(steps=stretch.steps[keep], at=stretch.at[keep], values=stretch.values[keep])
