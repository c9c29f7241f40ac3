"""The charts tab: one chart per metric, updated while the run trains."""

from __future__ import annotations

from collections.abc import Iterable

from nicegui import app, ui

from runspine.errors import RunspineError
from runspine.services.dashboard.edges.metric_queries import list_series_names
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.curves import CurveChart, CurveSource, refresh_charts
from runspine.services.dashboard.pages.elements.notices import loading
from runspine.wire.v1.trainer_pb2 import GetResponse

REFRESH_SECONDS = 1.0
SERIES_REFRESH_SECONDS = 5.0
# Default of the slider: returns of single episodes are noisy, and stay visible behind the smoothed line.
SMOOTHING = 0.6
FIRST_METRICS = (
    "episodic_return",
    "episode_reward",
    "ep_rew_mean",
    "eval",
    "episodic_length",
    "SPS",
    "time/fps",
)


async def draw_charts(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    await ChartsTab(context, visitor, answer.run.id).draw()


def order_metrics(names: Iterable[str]) -> list[str]:
    """Returns first, then lengths and speed, then all other metrics by name."""

    def rank(name: str) -> tuple[int, str]:
        return (next((i for i, part in enumerate(FIRST_METRICS) if part in name), len(FIRST_METRICS)), name)

    return sorted(names, key=rank)


class ChartsTab:
    def __init__(self, context: PageContext, visitor: Visitor, run_id: str) -> None:
        self._context = context
        self._visitor = visitor
        self._run_id = run_id
        self._charts: dict[str, CurveChart] = {}
        self._version = 0
        self._order: list[str] = []

    async def draw(self) -> None:
        with ui.row().classes("rs-bar"):
            self._axis = ui.toggle(["step", "time", "episode"], value="step").props(
                "dense unelevated no-caps"
            )
            ui.label("Smoothing").classes("rs-quiet")
            self._smoothing = (
                ui.slider(min=0, max=0.99, step=0.01, value=app.storage.user.get("smoothing", SMOOTHING))
                .props('label aria-label="Smoothing"')
                .classes("rs-slider")
            )
            self._log = ui.switch("Log scale")
            self._search = ui.input(placeholder="Filter metrics…").props(
                'dense outlined clearable aria-label="Filter metrics"'
            )
            ui.space()
            ui.label("scroll to zoom, double-click to reset").classes("rs-quiet rs-hint")
        self._none = ui.column().classes("w-full")
        with self._none:
            self._note = loading("Loading metrics…")
        self._grid = ui.element("div").classes("rs-wall")
        for control in (self._axis, self._smoothing, self._log):
            control.on_value_change(self._show)
        self._search.on_value_change(self._filter)
        await self._refresh_series()
        self._context.refresher.every(SERIES_REFRESH_SECONDS, self._refresh_series, at_once=False)
        self._context.refresher.every(REFRESH_SECONDS, self._refresh_points)

    async def _refresh_series(self) -> None:
        """Add a chart for each new series."""
        entry = self._context.runs.table.get(self._run_id)
        version = entry.version if entry else 0
        try:
            names = await self._context.shared.get(
                (self._visitor.access.audience, "series", self._run_id), version, self._names, steady=True
            )
        except RunspineError as error:
            self._note.set_text("The metrics cannot be loaded", str(error))
            return  # retried with the next refresh
        for name in names:
            if name not in self._charts:
                with self._grid:
                    self._charts[name] = self._chart(name)
        if names != self._order:
            self._order = names
            for place, name in enumerate(names):
                self._charts[name].style(f"order: {place}")
        self._note.set_text(
            "No metrics yet", "Charts appear with the first episode or the first metric of the trainer."
        )
        self._none.set_visibility(not self._charts)

    async def _names(self) -> list[str]:
        return order_metrics(await list_series_names(self._visitor.access, self._run_id))

    def _chart(self, name: str) -> CurveChart:
        chart = CurveChart(
            name,
            [CurveSource(self._run_id, name, name)],
            axis=str(self._axis.value),
            smoothing=self._smoothing.value,
        )
        return chart.classes("rs-card")

    def _show(self) -> None:
        app.storage.user["smoothing"] = self._smoothing.value
        for chart in self._charts.values():
            chart.show(
                axis=str(self._axis.value), smoothing=self._smoothing.value, logarithmic=bool(self._log.value)
            )

    def _filter(self) -> None:
        wanted = (self._search.value or "").lower()
        for name, chart in self._charts.items():
            chart.set_visibility(wanted in name.lower())

    def _refresh_points(self) -> None:
        entry = self._context.runs.table.get(self._run_id)
        if entry is None or entry.version == self._version or not self._context.curves.is_due(self._run_id):
            return
        self._version = entry.version
        refresh_charts(self._run_id)
