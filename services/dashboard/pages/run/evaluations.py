"""The evaluations tab: batches of an evaluation as they arrive, and their summary."""

from __future__ import annotations

import asyncio

from nicegui import background_tasks, ui

from runspine.domain.evaluation import overall
from runspine.errors import RunspineError
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.curves import CurveChart, CurveSource, refresh_charts
from runspine.services.dashboard.pages.elements.notices import empty
from runspine.services.dashboard.pages.elements.tables import plain_table
from runspine.text.values import number
from runspine.wire.v1.telemetry_pb2 import Score, StreamRequest
from runspine.wire.v1.trainer_pb2 import GetResponse

PUSH_SECONDS = 0.5
# Newest batches that are listed; the summary includes all.
MAX_LISTED = 100
CHARTED = (("eval/mean", "mean"), ("eval/min", "min"), ("eval/max", "max"))
FIELDS = ("batch", "mean", "std", "min", "median", "max", "episodes", "seconds")


async def draw_evaluations(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    EvaluationsTab(context, visitor, answer.run.id).draw()


class EvaluationsTab:
    def __init__(self, context: PageContext, visitor: Visitor, run_id: str) -> None:
        self._context = context
        self._visitor = visitor
        self._run_id = run_id
        self._scores: list[Score] = []
        self._shown = -1

    def draw(self) -> None:
        self._figures = ui.row().classes("rs-figures")
        sources = [CurveSource(self._run_id, name, label) for name, label in CHARTED]
        # One batch is a point, and a table shows it better.
        self._chart = CurveChart("Returns of each batch, over batches", sources).classes("rs-card w-full")
        self._chart.set_visibility(False)
        self._body = ui.column().classes("w-full")
        task = background_tasks.create(self._follow())
        ui.context.client.on_delete(task.cancel)
        self._context.refresher.every(PUSH_SECONDS, self._show)

    async def _follow(self) -> None:
        request = StreamRequest(run_id=self._run_id, follow=True)
        while True:
            try:
                async for message in self._visitor.access.stream("telemetry", "StreamEvaluations", request):
                    request.after = max(request.after, message.position)
                    self._scores.extend(message.scores)
                return
            except RunspineError:
                await asyncio.sleep(2.0)

    def _show(self) -> None:
        if self._shown == len(self._scores):
            return
        self._shown = len(self._scores)
        self._body.clear()
        self._figures.clear()
        whole = overall(self._scores)
        self._chart.set_visibility(len(self._scores) > 1)
        refresh_charts(self._run_id)
        with self._body:
            if whole is None:
                empty("No evaluated episodes yet", "The first batch appears when it is complete.")
                return
            plain_table([_row(score) for score in self._scores[-MAX_LISTED:]])
        low, high = whole["interval_95"]
        with self._figures:
            _figure("Mean return", f"{number(whole['mean'])} ± {number(whole['std'], 3)}")
            _figure("95 % interval", f"{number(low)} … {number(high)}")
            _figure("Episodes", f"{whole['episodes']:,}")
            _figure("Batches", f"{whole['batches']:,}")


def _row(score: Score) -> dict[str, str]:
    values = (score.mean, score.std, score.minimum, score.median, score.maximum)
    cells = [str(score.batch), *map(number, values), str(len(score.returns)), f"{score.seconds:.1f}"]
    return dict(zip(FIELDS, cells, strict=True))


def _figure(name: str, value: str) -> None:
    with ui.column().classes("rs-figure"):
        ui.label(name).classes("rs-figure-name")
        ui.label(value).classes("rs-figure-value")
