"""The episode in progress of one env slot: what exact replay needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runspine.sdk.columns import Column
from runspine.sdk.encoding import Packed


@dataclass(slots=True)
class Episode:
    """How the episode began, and every action since. Blocks of actions are packed; the newest are rows."""

    number: int
    # Id in the telemetry; empty when nothing is written (in a forked child the parent writes it).
    id: str
    # Number of resets of the env instance before this one.
    ordinal: int = 0
    seed: Any = None
    options: Any = None
    # State of the env's generator before the reset; None when it cannot be read.
    rng: dict[str, Any] | None = None
    # State of the emulator, for envs that have one.
    state: dict[str, Any] | None = None
    # Time of the reset.
    at: float = 0.0
    # The first observation, as its column keeps it; no column when the episode began without a reset.
    first: Any = None
    first_column: Column | None = None
    # Steps written so far, and their return.
    steps: int = 0
    value: float = 0.0
    # Whether it has ended.
    over: bool = False
    # Columns and rows of actions; older ones are packed.
    actions: list[tuple[Column, list[Any]]] = field(default_factory=list)
    packed: list[Packed | list[Any]] = field(default_factory=list)
    action_bytes: int = 0

    @property
    def too_long(self) -> bool:
        """Whether the episode has more actions than are kept."""
        return self.action_bytes > MAX_BYTES

    def add_actions(self, column: Column, rows: list[Any]) -> None:
        self.action_bytes += len(rows) * column.width
        self.actions.append((column, rows))
        if len(self.actions) >= MAX_UNPACKED_BLOCKS:
            self.pack_actions()

    def pack_actions(self) -> list[Packed | list[Any]]:
        """Pack every action so far into as few blocks as their types allow."""
        blocks = [column.pack(rows) for column, rows in self.actions]
        self.actions.clear()
        self.packed += [block for block in blocks if isinstance(block, Packed | list)]
        self.packed = [] if self.too_long else merged(self.packed)
        return self.packed


MAX_UNPACKED_BLOCKS = 64
# Bounds the memory of an endless episode; beyond this no snapshot can be taken.
MAX_BYTES = 256 << 20


def merged(blocks: list[Packed | list[Any]]) -> list[Packed | list[Any]]:
    """Join consecutive blocks of the same type."""
    runs: list[list[Packed | list[Any]]] = []
    for block in blocks:
        if runs and _kind(runs[-1][0]) == _kind(block):
            runs[-1].append(block)
        else:
            runs.append([block])
    return [_join(run) for run in runs]


def _kind(block: Packed | list[Any]) -> tuple[Any, ...]:
    return (block.dtype, block.shape, block.python) if isinstance(block, Packed) else ()


def _join(run: list[Packed | list[Any]]) -> Packed | list[Any]:
    first = run[0]
    if isinstance(first, Packed):
        return first._replace(data=b"".join(block.data for block in run if isinstance(block, Packed)))
    return [row for block in run for row in block]
