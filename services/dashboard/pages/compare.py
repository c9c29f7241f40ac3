"""The compare page: curves of runs or seed groups with bands, parameters, two replays in lock-step."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode

from fastapi import Request
from nicegui import ui

from runspine.compare.references import default_metrics
from runspine.domain.run import ENDED
from runspine.errors import RunspineError
from runspine.services.dashboard.core.comparison import STATISTICS, as_rows
from runspine.services.dashboard.core.hyperparameters import side_by_side
from runspine.services.dashboard.edges.metric_queries import AXES, RETURN_METRICS, get_runs, list_series_names
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.curves import CurveChart, CurveSource
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.elements.notices import empty, problem, wait_for_browser
from runspine.services.dashboard.pages.elements.scrubber import EpisodeScrubber, ScrubbedEpisode
from runspine.services.dashboard.pages.run.charts import order_metrics
from runspine.wire.v1.run_pb2 import Run

REFRESH_SECONDS = 3.0
# Newest runs that the selection offers; the table of runs has all.
MAX_OFFERED_RUNS = 500
EPISODES = ("best", "worst", "longest", "shortest", "first", "last")
HEADINGS = {
    "group": "Group", "runs": "Runs", "final": "Final (IQM, 95 %)", "mean": "Final mean ± std",
    "area": "Area under curve",
}  # fmt: skip
REACHED = {
    "step": "Steps to threshold", "time": "Seconds to threshold", "episode": "Episodes to threshold",
}  # fmt: skip


@dataclass(slots=True)
class CompareQuery:
    """The query parameters of the page."""

    runs: list[str] = field(default_factory=list)
    metric: str = ""
    axis: str = "step"
    stat: str = "iqm"
    # Every run separately instead of groups of seeds.
    each: bool = False

    def query(self) -> str:
        pairs = [("run", run) for run in self.runs]
        pairs += [
            ("metric", self.metric),
            ("axis", self.axis),
            ("stat", self.stat),
            ("each", str(self.each).lower()),
        ]
        return urlencode(pairs)


def add_compare_page(context: PageContext) -> None:
    @page("/compare")
    async def compare(request: Request) -> None:
        visitor = context.visitor(request)
        params = request.query_params
        choice = CompareQuery(
            params.getlist("run"),
            params.get("metric", ""),
            params.get("axis", "step"),
            params.get("stat", "iqm"),
            params.get("each") == "true",
        )
        with frame(context, visitor, "Compare", "/compare"):
            await wait_for_browser("Comparing runs…")
            await ComparePage(context, visitor, choice).draw()


class ComparePage:
    def __init__(self, context: PageContext, visitor: Visitor, choice: CompareQuery) -> None:
        self._context = context
        self._visitor = visitor
        self._choice = choice
        self._version = 0

    async def draw(self) -> None:
        choice = self._choice
        entries = sorted(self._context.runs.table.entries(), key=lambda entry: -entry.run.submitted_at)
        known = {entry.run.id: entry.run.name for entry in entries[:MAX_OFFERED_RUNS]}
        known |= {entry.run.id: entry.run.name for entry in entries if entry.run.id in choice.runs}
        self._picked = (
            ui.select(known, value=[run for run in choice.runs if run in known], multiple=True, label="Runs")
            .props('use-chips use-input dense outlined input-debounce="0"')
            .classes("w-full")
        )
        self._picked.on_value_change(self._pick)
        self._body = ui.column().classes("w-full")
        await self._draw_body()

    def _pick(self) -> None:
        self._choice.runs = list(self._picked.value or [])
        ui.navigate.to(f"/compare?{self._choice.query()}")

    async def _draw_body(self) -> None:
        choice = self._choice
        if not choice.runs:
            empty(
                "No runs selected",
                "Select runs above, or tick them in the table of runs and press Compare.",
            )
            return
        try:
            runs = await get_runs(self._visitor.access, choice.runs)
            names = sorted(
                {name for run in runs for name in await list_series_names(self._visitor.access, run.id)}
            )
        except RunspineError as error:
            problem("These runs cannot be compared", str(error), "All runs", "/")
            return
        self._runs = runs
        if not choice.metric:
            choice.metric = next(
                (name for name in default_metrics(run.spec for run in runs) if name in names),
                (order_metrics(names) or [RETURN_METRICS[0]])[0],
            )
        with self._body:
            self._controls(order_metrics(names))
            self._chart = ui.column().classes("w-full")
            self._advice = ui.label().classes("rs-quiet")
            self._table = ui.table(columns=[], rows=[], row_key="group")
            self._table.props("dense flat wrap-cells").classes("rs-card w-full")
            await self._draw_figures()
            self._parameters(runs)
            self._replays(runs)
        if any(run.phase not in ENDED for run in runs):
            self._context.refresher.every(REFRESH_SECONDS, self._grow)

    def _controls(self, names: list[str]) -> None:
        choice = self._choice
        with ui.row().classes("rs-bar"):
            options = names if choice.metric in names else [choice.metric, *names]
            metric = ui.select(options, value=choice.metric, label="Metric", with_input=True).props(
                "dense outlined"
            )
            axis = ui.toggle(list(AXES), value=choice.axis if choice.axis in AXES else "step")
            stat = ui.toggle(list(STATISTICS), value=choice.stat if choice.stat in STATISTICS else "iqm")
            each = ui.switch("Each run separately", value=choice.each)
            for toggle in (axis, stat):
                toggle.props("dense unelevated no-caps")

        async def change() -> None:
            choice.metric, choice.axis = str(metric.value), str(axis.value)
            choice.stat, choice.each = str(stat.value), bool(each.value)
            ui.navigate.history.replace(f"/compare?{choice.query()}")
            await self._draw_figures()

        for control in (metric, axis, stat, each):
            control.on_value_change(change)

    async def _draw_figures(self) -> None:
        choice = self._choice
        self._chart.clear()
        with self._chart:
            source = CurveSource("", choice.metric, choice.metric, f"/api/compare?{choice.query()}")
            self._curves = CurveChart(choice.metric, [source], axis=choice.axis).classes(
                "rs-card w-full rs-tall"
            )
        await self._draw_table()

    async def _draw_table(self) -> None:
        choice = self._choice
        try:
            found = await self._context.comparisons.get(
                self._visitor.access, choice.runs, choice.metric, choice.axis, choice.stat, (), choice.each
            )
        except RunspineError:
            self._table.rows, self._advice.text = [], ""
            return  # the chart shows the error
        self._table.columns = table_columns(choice.axis)
        self._table.rows = as_rows(found)
        self._advice.text = found.advice[:1].upper() + found.advice[1:]

    async def _grow(self) -> None:
        table = self._context.runs.table
        newest = max((entry.version for run in self._runs if (entry := table.get(run.id))), default=0)
        if newest != self._version:
            self._version = newest
            self._curves.grow()
            await self._draw_table()

    def _parameters(self, runs: list[Run]) -> None:
        rows = side_by_side([run.spec for run in runs], only_different=True)
        ui.label("Parameters that differ").classes("rs-section")
        if not rows:
            ui.label("None: the specs of these runs are equal.").classes("rs-quiet")
            return
        # Names of parameters are values here, never keys: NiceGUI evaluates keys that begin with a colon.
        columns = [{"name": "p", "label": "", "field": "p", "align": "left"}]
        columns += [
            {"name": f"c{place}", "label": run.name, "field": f"c{place}", "align": "left"}
            for place, run in enumerate(runs)
        ]
        table = [
            {"p": path, **{f"c{place}": value for place, value in enumerate(values)}} for path, values in rows
        ]
        ui.table(columns=columns, rows=table, row_key="p").props("dense flat").classes("rs-card w-full")

    def _replays(self, runs: list[Run]) -> None:
        ui.label("Two episodes in lock-step").classes("rs-section")
        names = {run.id: run.name for run in runs}
        first, second = runs[0].id, runs[-1].id
        with ui.row().classes("rs-bar"):
            left = _run_select(names, first, "Left run")
            left_episode = ui.select(list(EPISODES), value="best").props(
                'dense outlined aria-label="Left episode"'
            )
            right = _run_select(names, second, "Right run")
            right_episode = ui.select(list(EPISODES), value="best" if first != second else "worst").props(
                'dense outlined aria-label="Right episode"'
            )
            button = ui.button("Play both", icon="play_circle").props("flat no-caps")
        place = ui.column().classes("w-full")

        def play() -> None:
            place.clear()
            with place:
                EpisodeScrubber([
                    ScrubbedEpisode(str(left.value), str(left_episode.value), names[str(left.value)]),
                    ScrubbedEpisode(str(right.value), str(right_episode.value), names[str(right.value)]),
                ])  # fmt: skip

        button.on_click(play)


def table_columns(axis: str) -> list[dict[str, str]]:
    headings = {**HEADINGS, "reached": REACHED[axis]}
    return [
        {"name": name, "label": label, "field": name, "align": "left"} for name, label in headings.items()
    ]


def _run_select(names: dict[str, str], value: str, label: str) -> ui.select:
    return ui.select(names, value=value).props(f'dense outlined aria-label="{label}"')
