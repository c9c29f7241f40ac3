"""Layout of the frames of several slots in one picture. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from runspine.wire.v1.live_pb2 import Frame

CAPTION_HEIGHT = 16
# Width of a whole clip, in pixels.
MAX_CLIP_WIDTH = 1920


@dataclass(frozen=True, slots=True)
class FrameGrid:
    count: int
    columns: int
    # Size of one cell without its caption.
    width: int
    height: int

    @classmethod
    def of(cls, count: int, width: int, height: int) -> Self:
        columns = grid_columns(count)
        part = min(1.0, MAX_CLIP_WIDTH / (columns * width))
        return cls(count, columns, max(2, int(width * part)), max(2, int(height * part)))

    @property
    def size(self) -> tuple[int, int]:
        rows = -(-self.count // self.columns)
        return self.columns * self.width, rows * (self.height + CAPTION_HEIGHT)

    def place(self, index: int) -> tuple[int, int]:
        row, column = divmod(index, self.columns)
        return column * self.width, row * (self.height + CAPTION_HEIGHT)


def grid_columns(count: int) -> int:
    """The most square layout; one more column where that avoids gaps: eight slots are 2 × 4."""
    least = max(1, math.ceil(math.sqrt(count)))
    return next((columns for columns in (least, least + 1) if count % columns == 0), least)


def caption(frame: Frame) -> str:
    hud = frame.hud
    return f"{frame.slot}   return {hud.episode_return:.4g}   step {hud.episode_step}   {hud.episode_id}"
