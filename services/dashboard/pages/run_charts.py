"""The curves of a run, growing while it trains."""

from __future__ import annotations

from collections.abc import Iterable

from nicegui import app, ui

from runspine.errors import RunspineError
from runspine.wire.v1.trainer_pb2 import GetResponse
from services.dashboard.edges.figures import series_names
from services.dashboard.pages.curves import Curves, Source, grow
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.notices import loading

GROW_SECONDS = 1.0
LOOK_SECONDS = 5.0
# Until a visitor chooses: returns of single episodes jump about, and stay visible behind the line.
SMOOTHING = 0.6
FIRST = ("episodic_return", "episode_reward", "ep_rew_mean", "eval", "episodic_length", "SPS", "time/fps")


async def draw_charts(desk: Desk, visitor: Visitor, answer: GetResponse) -> None:
    await ChartWall(desk, visitor, answer.run.id).draw()


def in_order(names: Iterable[str]) -> list[str]:
    """Returns first, then what else a person looks at, then losses and the rest by name."""

    def place(name: str) -> tuple[int, str]:
        return (next((i for i, word in enumerate(FIRST) if word in name), len(FIRST)), name)

    return sorted(names, key=place)


class ChartWall:
    def __init__(self, desk: Desk, visitor: Visitor, run_id: str) -> None:
        self._desk = desk
        self._visitor = visitor
        self._run_id = run_id
        self._charts: dict[str, Curves] = {}
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
            ui.label("scroll to zoom, double-click to see all").classes("rs-quiet rs-hint")
        self._none = ui.column().classes("w-full")
        with self._none:
            self._note = loading("Loading the curves…")
        self._wall = ui.element("div").classes("rs-wall")
        for control in (self._axis, self._smoothing, self._log):
            control.on_value_change(self._show)
        self._search.on_value_change(self._filter)
        await self._look()
        self._desk.heart.every(LOOK_SECONDS, self._look, at_once=False)
        self._desk.heart.every(GROW_SECONDS, self._grow)

    async def _look(self) -> None:
        """New series get a chart of their own."""
        entry = self._desk.following.book.get(self._run_id)
        version = entry.version if entry else 0
        try:
            names = await self._desk.shared.get(
                (self._visitor.access.audience, "series", self._run_id), version, self._names, steady=True
            )
        except RunspineError as error:
            self._note.tell("The curves cannot be shown now", str(error))
            return  # the next look comes soon
        for name in names:
            if name not in self._charts:
                with self._wall:
                    self._charts[name] = self._chart(name)
        if names != self._order:
            self._order = names
            for place, name in enumerate(names):
                self._charts[name].style(f"order: {place}")
        self._note.tell(
            "No metrics yet", "Curves appear with the first episode or the first metric of the trainer."
        )
        self._none.set_visibility(not self._charts)

    async def _names(self) -> list[str]:
        return in_order(await series_names(self._visitor.access, self._run_id))

    def _chart(self, name: str) -> Curves:
        chart = Curves(
            name,
            [Source(self._run_id, name, name)],
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

    def _grow(self) -> None:
        entry = self._desk.following.book.get(self._run_id)
        if entry is None or entry.version == self._version or not self._desk.shelf.is_due(self._run_id):
            return
        self._version = entry.version
        grow(self._run_id)
