"""HTML of runs for notebooks: a card with a sparkline, and tables. All text is escaped. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from runspine.api.fields import RunFields

COLOURS = {"completed": "#2e7d32", "failed": "#c62828", "running": "#1565c0", "stale": "#ef6c00"}
WIDTH, HEIGHT = 240, 48
CARD = "border:1px solid #8884;border-radius:8px;padding:10px 14px;display:inline-block;font:13px sans-serif"


def run_card(run: RunFields, title: str = "", xs: Sequence[float] = (), ys: Sequence[float] = ()) -> str:
    """A run on a card, with a curve when there is one."""
    facts = [
        ("env", run.env),
        ("algo", run.algo),
        ("seed", run.seed),
        ("submitted", f"{run.submitted:%Y-%m-%d %H:%M} UTC" if run.submitted else ""),
        *sorted(run.labels.items()),
    ]
    cells = "".join(
        f"<span style='margin-right:12px'><b>{_text(key)}</b> {_text(value)}</span>"
        for key, value in facts
        if value not in ("", None)
    )
    reason = f"<div style='color:#888'>{_text(run.reason)}</div>" if run.reason else ""
    curve = f"<div style='color:#888'>{_text(title)}</div>{sparkline(xs, ys)}" if len(xs) else ""
    return (
        f"<div style='{CARD}'><div><b>{_text(run.name)}</b> {state_badge(run.state)}</div>"
        f"<div style='color:#888'>{_text(run.id)}</div><div>{cells}</div>{reason}{curve}</div>"
    )


def run_rows(runs: Iterable[RunFields], total: int) -> str:
    """Runs as a table, with a line that states how many there are."""
    head = "".join(f"<th>{name}</th>" for name in ("id", "name", "state", "env", "algo", "seed", "submitted"))
    rows, shown = [], 0
    for run in runs:
        shown += 1
        when = f"{run.submitted:%Y-%m-%d %H:%M}" if run.submitted else ""
        cells = [run.id, run.name, None, run.env, run.algo, run.seed, when]
        rows.append(
            "<tr>"
            + "".join(f"<td>{state_badge(run.state) if c is None else _text(c)}</td>" for c in cells)
            + "</tr>"
        )
    more = f"<div>{shown} of {total:,} runs</div>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def state_badge(state: str) -> str:
    return f"<span style='color:{COLOURS.get(state, '#777')}'>● {_text(state)}</span>"


def sparkline(xs: Sequence[float], ys: Sequence[float], width: int = WIDTH, height: int = HEIGHT) -> str:
    """A small curve as SVG; a value that is no finite number leaves a gap."""
    finite = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if not finite:
        return ""
    x0, x1 = min(x for x, _ in finite), max(x for x, _ in finite)
    y0, y1 = min(y for _, y in finite), max(y for _, y in finite)
    lines: list[list[str]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            lines.append([])
            continue
        across = _share(x, x0, x1) * (width - 4) + 2
        down = (1 - _share(y, y0, y1)) * (height - 4) + 2
        lines[-1].append(f"{across:.1f},{down:.1f}")
    drawn = "".join(
        f"<polyline fill='none' stroke='#1565c0' stroke-width='1.5' points='{' '.join(line)}'/>"
        for line in lines
        if line
    )
    return (
        f"<svg width='{width}' height='{height}' viewBox='0 0 {width} {height}' role='img' "
        f"aria-label='{len(finite)} points, {y0:.4g} to {y1:.4g}'>{drawn}</svg>"
    )


def _share(value: float, low: float, high: float) -> float:
    # Halves first: the difference of two large values can overflow.
    span = high / 2 - low / 2
    return (value / 2 - low / 2) / span if span > 0 else 0.5


def _text(value: Any) -> str:
    return escape(str(value), quote=True)
