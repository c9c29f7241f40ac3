"""Draws a learning curve in block characters, and the table below it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"


def draw(
    points: Sequence[float], *, height: int = 8, left: str = "0", right: str = "", title: str = ""
) -> str:
    """Draw the points as columns; a gap where a point is NaN."""
    finite = [point for point in points if math.isfinite(point)]
    if not finite:
        return "no episode ended: no curve"
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    # The lowest point still shows as a thin line: zero height is left for gaps.
    levels = [1 + round((p - low) / span * (height * 8 - 1)) if math.isfinite(p) else 0 for p in points]
    labels = {height - 1: f"{high:.4g}", 0: f"{low:.4g}"}
    margin = max(len(label) for label in labels.values())
    lines = [title] if title else []
    for row in reversed(range(height)):
        cells = "".join(BLOCKS[min(max(level - row * 8, 0), 8)] for level in levels)
        lines.append(f"{labels.get(row, ''):>{margin}} ┤{cells}")
    gap = max(1, len(points) - len(left) - len(right))
    lines.append(" " * (margin + 2) + left + " " * gap + right)
    return "\n".join(lines)


def table(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)
