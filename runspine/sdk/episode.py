"""One episode of one env slot, as far as it has come: what exact replay needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runspine.sdk.columns import Column
from runspine.sdk.text import Packed


@dataclass(slots=True)
class Episode:
    """How it began, and every action since. Blocks of actions are packed; the newest are still rows."""

    number: int
    # As it is known on the log; empty when it must not be said (in a forked child it is the parent's).
    id: str
    # How many resets the env instance had before.
    ordinal: int = 0
    seed: Any = None
    options: Any = None
    # State of the env's generator before the reset; None when it cannot be read.
    rng: dict[str, Any] | None = None
    # And of an emulator's, for envs that are one.
    state: dict[str, Any] | None = None
    # When the reset was.
    at: float = 0.0
    # The first observation, as its column keeps it; no column when the episode began without a reset.
    first: Any = None
    first_column: Column | None = None
    # Steps said so far, and their return.
    steps: int = 0
    value: float = 0.0
    # Columns and rows of actions; those that have been there for a while are packed.
    actions: list[tuple[Column, list[Any]]] = field(default_factory=list)
    packed: list[Packed | list[Any]] = field(default_factory=list)
    action_bytes: int = 0

    @property
    def too_long(self) -> bool:
        """Whether its actions are no longer kept."""
        return self.action_bytes > MOST_BYTES

    def add_actions(self, column: Column, rows: list[Any]) -> None:
        self.action_bytes += len(rows) * column.width
        self.actions.append((column, rows))
        if len(self.actions) >= MANY_BLOCKS:
            self.pack_actions()

    def pack_actions(self) -> list[Packed | list[Any]]:
        """Every action so far, in as few blocks as their kinds allow."""
        blocks = [column.pack(rows) for column, rows in self.actions]
        self.actions.clear()
        self.packed += [block for block in blocks if isinstance(block, Packed | list)]
        self.packed = [] if self.too_long else merged(self.packed)
        return self.packed


MANY_BLOCKS = 64
# An episode that never ends must not fill the memory: beyond this it cannot be put back.
MOST_BYTES = 256 << 20


def merged(blocks: list[Packed | list[Any]]) -> list[Packed | list[Any]]:
    """The same rows in as few blocks as their kinds allow."""
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
