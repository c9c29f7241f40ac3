"""Scales and stamps frames, and plots observations. Needs Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

Frame = np.ndarray[Any, Any]
PAPER, INK, FAINT, ALARM = (250, 250, 247), (40, 44, 52), (205, 208, 212), (196, 30, 42)
LINES = ((31, 119, 180), (214, 110, 10), (44, 140, 60), (180, 40, 60), (120, 84, 170), (110, 80, 70))
# An observation of more numbers is drawn as a heat map.
MAX_CURVES = 12


def scaled(frame: Frame, size: tuple[int, int] | None) -> Image.Image:
    """Scale to the size, with bars where the aspect ratio differs."""
    image = Image.fromarray(frame)
    if size is None or image.size == size:
        return image
    # Small frames keep sharp pixels.
    small = image.width * 3 <= size[0] and image.height * 3 <= size[1]
    how = Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS
    return ImageOps.pad(image, size, how)


def stamped(image: Image.Image, text: str) -> Image.Image:
    """Draw a band with the text across the top."""
    image = image.convert("RGB")
    points = max(9, min(22, image.width // 28))
    font = ImageFont.load_default(points)
    draw = ImageDraw.Draw(image)
    while points > 7 and draw.textlength(text, font) > image.width - 8:
        points -= 1
        font = ImageFont.load_default(points)
    draw.rectangle((0, 0, image.width, points + 8), fill=ALARM)
    draw.text((4, 3), text, fill="white", font=font)
    return image


def as_image(observation: Any) -> Frame | None:
    """The observation as an image, when it is one: H×W, H×W×C or C×H×W of bytes."""
    if isinstance(observation, dict):
        return as_image(observation.get("image", observation.get("pixels")))
    seen: Frame = np.asarray(observation) if observation is not None else np.empty(0)
    if seen.dtype != np.uint8 or seen.ndim not in (2, 3) or min(seen.shape) == 0:
        return None
    if seen.ndim == 3 and seen.shape[2] not in (1, 3, 4) and seen.shape[0] in (1, 3, 4):
        seen = np.moveaxis(seen, 0, 2)
    if max(seen.shape[:2]) < 16:
        return None  # a grid of codes, as MiniGrid's, is no picture
    if seen.ndim == 3:
        # Stacked grey frames: the newest is the last.
        seen = seen[:, :, :3] if seen.shape[2] == 3 else seen[:, :, -1]
    return np.ascontiguousarray(np.stack([seen] * 3, 2) if seen.ndim == 2 else seen)


def numbers_of(observation: Any) -> Frame | None:
    """All numbers of an observation as one row."""
    if observation is None or isinstance(observation, str):
        return None
    if isinstance(observation, dict):
        observation = list(observation.values())
    if isinstance(observation, list | tuple):
        parts = [numbers_of(part) for part in observation]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if known else None
    seen = np.asarray(observation)
    return seen.astype(np.float64).reshape(-1) if seen.dtype.kind in "biuf" else None


class Plot:
    """Plot of numbers over steps: a curve for each of a few, a heat map for many."""

    def __init__(self, rows: Sequence[Frame], size: tuple[int, int], title: str) -> None:
        self.image = Image.new("RGB", size, PAPER)
        # Room for a stamp above, for the title below.
        self._box = box = (8, 34, size[0] - 70, size[1] - 26)
        draw = ImageDraw.Draw(self.image)
        font = ImageFont.load_default(max(9, min(14, size[0] // 44)))
        table = _table(rows)
        draw.text((8, size[1] - 22), f"{title}, steps 0 to {len(table) - 1:,}", fill=INK, font=font)
        self._last = max(1, len(table) - 1)
        if table.shape[1] <= MAX_CURVES:
            _curves(draw, table, box, font)
        else:
            _map(self.image, table, box)
            draw.text((box[2] + 6, box[1]), f"{table.shape[1]} values", fill=INK, font=font)

    def at(self, row: int) -> Image.Image:
        """The plot with a line at the row."""
        image = self.image.copy()
        left, top, right, bottom = self._box
        x = left + (right - left) * row / self._last
        ImageDraw.Draw(image).line((x, top, x, bottom), fill=ALARM, width=2)
        return image


def _table(rows: Sequence[Frame]) -> Frame:
    """Rows as one table; shorter ones are filled with gaps."""
    width = max((len(row) for row in rows), default=1) or 1
    table = np.full((max(1, len(rows)), width), np.nan)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return np.where(np.isfinite(table), table, np.nan)


def _curves(draw: Any, table: Frame, box: tuple[int, int, int, int], font: Any) -> None:
    left, top, right, bottom = box
    each = (bottom - top) / table.shape[1]
    for number, column in enumerate(table.T):
        ceiling, floor = top + number * each + 3, top + (number + 1) * each - 3
        draw.line((left, floor + 3, right, floor + 3), fill=FAINT)
        known = column[~np.isnan(column)]
        if not len(known):
            continue
        low, high = float(known.min()), float(known.max())
        span = (high - low) or 1.0
        xs = left + (right - left) * np.arange(len(column)) / max(1, len(column) - 1)
        ys = floor - (floor - ceiling) * (column - low) / span
        points = [(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True) if y == y]
        if len(points) > 1:
            draw.line(points, fill=LINES[number % len(LINES)], width=2)
        draw.text((right + 6, ceiling - 2), f"{high:.3g}", fill=INK, font=font)
        if floor - ceiling > 28:
            draw.text((right + 6, floor - 12), f"{low:.3g}", fill=INK, font=font)


def _map(image: Image.Image, table: Frame, box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    low, high = np.nanmin(table), np.nanmax(table)
    share = np.nan_to_num((table - low) / ((high - low) or 1.0))
    shades = (255 - share.T * 215).astype(np.uint8)
    drawn = Image.fromarray(np.stack([shades, shades, np.maximum(shades, 120)], 2))
    image.paste(drawn.resize((right - left, bottom - top), Image.Resampling.NEAREST), (left, top))
