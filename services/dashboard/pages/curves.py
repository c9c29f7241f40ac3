"""A chart that fetches its own figures; the page only tells it what to show and when there is more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nicegui.elements.echart  # noqa: F401 - registers ECharts under the name that curves.js imports
from nicegui import ui
from nicegui.element import Element

STATIC = Path(__file__).parents[1] / "static"


@dataclass(frozen=True, slots=True)
class Source:
    """One line of a chart."""

    run: str
    name: str
    label: str
    # Where several curves come from at once, instead of the run's own.
    url: str = ""


class Curves(Element, component=STATIC / "curves.js"):
    def __init__(
        self, title: str, sources: Sequence[Source], *, axis: str = "step", smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self._props["title"] = title
        self._props["sources"] = [
            {"run": source.run, "name": source.name, "label": source.label, "url": source.url}
            for source in sources
        ]
        self._props["axis"] = axis
        self._props["smoothing"] = smoothing
        self._props["logarithmic"] = False

    def show(self, *, axis: str, smoothing: float, logarithmic: bool) -> None:
        self._props["axis"] = axis
        self._props["smoothing"] = smoothing
        self._props["logarithmic"] = logarithmic
        self.update()

    def grow(self) -> None:
        self.run_method("grow")


def grow(run_id: str) -> None:
    """Tell all charts of the run on this page that there is more; those that are seen ask for it."""
    ui.run_javascript(f"rs.grow({json.dumps(run_id)})")
