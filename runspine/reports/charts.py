"""Line charts as SVG, with axes, a legend and the extremes of what each point stands for. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 34
COLOURS = ("#1565c0", "#c62828", "#2e7d32", "#ef6c00", "#6a1b9a", "#00838f", "#ad1457", "#5d4037")
DASHES = ("", "6 3", "2 3", "8 3 2 3")
TICKS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """A series with its extremes; a value that is no finite number leaves a gap."""

    name: str
    steps: Sequence[float]
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def line_chart(lines: Sequence[Line], *, title: str = "", log: bool = False) -> str:
    """The chart as a figure; a sentence when there is nothing to draw."""
    scale = _Scale.of(lines, log)
    heading = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    if scale is None:
        return f"<figure>{heading}<p class='empty'>no points</p></figure>"
    drawn = "".join(_drawn(line, index, scale) for index, line in enumerate(lines))
    label = escape(f"{title}: {len(lines)} lines", quote=True)
    return (
        f"<figure>{heading}<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{label}'>"
        f"{_axes(scale)}{drawn}</svg>{_legend(lines)}</figure>"
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    x0: float
    x1: float
    y0: float
    y1: float
    log: bool

    @classmethod
    def of(cls, lines: Sequence[Line], log: bool) -> _Scale | None:
        xs: list[float] = []
        ys: list[float] = []
        for line in lines:
            for column in (line.values, line.low, line.high):
                for step, value in zip(line.steps, column, strict=False):
                    if math.isfinite(value) and (value > 0 or not log):
                        xs.append(float(step))
                        ys.append(math.log10(value) if log else float(value))
        if not xs:
            return None
        return cls(min(xs), max(xs), *_apart(min(ys), max(ys)), log)

    def x(self, step: float) -> float:
        return LEFT + _share(step, self.x0, self.x1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float | None:
        """None where it cannot be drawn."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        at = math.log10(value) if self.log else value
        return TOP + (1 - _share(at, self.y0, self.y1)) * (HEIGHT - TOP - BOTTOM)


def _apart(low: float, high: float) -> tuple[float, float]:
    """A constant series is a line in the middle."""
    return (low, high) if high > low else (low - max(1.0, abs(low)) / 2, high + max(1.0, abs(high)) / 2)


def _share(value: float, low: float, high: float) -> float:
    # Halves first: the difference of two large values can overflow.
    span = high / 2 - low / 2
    return (value / 2 - low / 2) / span if span > 0 else 0.5


def _drawn(line: Line, index: int, scale: _Scale) -> str:
    colour, dash = COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]
    band = _band(line, scale)
    area = f"<path d='{band}' fill='{colour}' fill-opacity='0.13'/>" if band else ""
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    path = _path(line.steps, line.values, scale)
    stroke = f"stroke='{colour}' stroke-width='1.6'{dashed}"
    return f"{area}<path d='{path}' fill='none' {stroke}><title>{escape(line.name)}</title></path>"


def _path(steps: Sequence[float], values: Sequence[float], scale: _Scale) -> str:
    words, pen = [], "M"
    for step, value in zip(steps, values, strict=True):
        down = scale.y(value)
        if down is None:
            pen = "M"
            continue
        words.append(f"{pen}{scale.x(step):.1f} {down:.1f}")
        if pen == "M":
            # A single point between gaps is seen as well.
            words.append("h0.01")
        pen = "L"
    return "".join(words)


def _band(line: Line, scale: _Scale) -> str:
    rows = [
        (scale.x(step), scale.y(low), scale.y(high))
        for step, low, high in zip(line.steps, line.low, line.high, strict=False)
    ]
    kept = [(x, low, high) for x, low, high in rows if low is not None and high is not None]
    if len(kept) < 2:
        return ""
    there = "L".join(f"{x:.1f} {high:.1f}" for x, _, high in kept)
    back = "L".join(f"{x:.1f} {low:.1f}" for x, low, _ in reversed(kept))
    return f"M{there}L{back}Z"


def _axes(scale: _Scale) -> str:
    out = []
    for index in range(TICKS):
        share = index / (TICKS - 1)
        value = scale.y0 + (scale.y1 - scale.y0) * share
        down = TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)
        shown = 10**value if scale.log else value
        out.append(f"<line class='grid' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{down:.1f}' y2='{down:.1f}'/>")
        out.append(f"<text x='{LEFT - 6}' y='{down + 4:.1f}' text-anchor='end'>{short(shown)}</text>")
        step = scale.x0 + (scale.x1 - scale.x0) * share
        anchor = ("start", "middle", "middle", "middle", "end")[index]
        out.append(
            f"<text x='{scale.x(step):.1f}' y='{HEIGHT - 12}' text-anchor='{anchor}'>{short(step)}</text>"
        )
    return "".join(out)


def short(value: float) -> str:
    """A number for an axis: 1.5M, 0.003."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"


def _legend(lines: Sequence[Line]) -> str:
    entries = "".join(
        f"<li><span style='background:{COLOURS[index % len(COLOURS)]}'></span>{escape(line.name)}</li>"
        for index, line in enumerate(lines)
    )
    return f"<ul class='legend'>{entries}</ul>"
