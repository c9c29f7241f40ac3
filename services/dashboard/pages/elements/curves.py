"""A chart that fetches its own curves; the server only sets its sources and triggers a refresh."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import nicegui.elements.echart  # noqa: F401 - registers ECharts under the name that curves.js imports
from nicegui import ui
from nicegui.element import Element

from runspine.services.dashboard.assets import STATIC


@dataclass(frozen=True, slots=True)
class CurveSource:
    """One line of a chart."""

    run: str
    name: str
    label: str
    # Address that returns several curves at once; used instead of run and name.
    url: str = ""


class CurveChart(Element, component=STATIC / "curves.js"):
    def __init__(
        self, title: str, sources: Sequence[CurveSource], *, axis: str = "step", smoothing: float = 0.0
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


def refresh_charts(run_id: str) -> None:
    """Notify all charts of a run on this page of new points; the visible ones fetch them."""
    ui.run_javascript(f"rs.grow({json.dumps(run_id)})")
