"""Pictures of several slots beside each other. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from runspine.wire.v1.live_pb2 import Frame

CAPTION = 16
# Of a whole clip, in pixels.
WIDEST = 1920


@dataclass(frozen=True, slots=True)
class Mosaic:
    count: int
    columns: int
    # Of one picture.
    width: int
    height: int

    @classmethod
    def of(cls, count: int, width: int, height: int) -> Self:
        columns = columns_of(count)
        part = min(1.0, WIDEST / (columns * width))
        return cls(count, columns, max(2, int(width * part)), max(2, int(height * part)))

    @property
    def size(self) -> tuple[int, int]:
        rows = -(-self.count // self.columns)
        return self.columns * self.width, rows * (self.height + CAPTION)

    def place(self, index: int) -> tuple[int, int]:
        row, column = divmod(index, self.columns)
        return column * self.width, row * (self.height + CAPTION)


def columns_of(count: int) -> int:
    """As square as it can be, but without gaps where one more column does it: eight are 2 × 4."""
    least = max(1, math.ceil(math.sqrt(count)))
    return next((columns for columns in (least, least + 1) if count % columns == 0), least)


def caption(frame: Frame) -> str:
    hud = frame.hud
    return f"{frame.slot}   return {hud.episode_return:.4g}   step {hud.episode_step}   {hud.episode_id}"
