"""The live tab: the envs of all slots of a run, rendered while the tab is visible."""

from __future__ import annotations

from nicegui import ui
from nicegui.element import Element

from runspine.domain.run import ENDED
from runspine.services.dashboard.assets import STATIC
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.spec.plain import enum_word
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.trainer_pb2 import GetResponse


class LiveView(Element, component=STATIC / "live.js"):
    """The component live.js, which receives frames over its own web socket; props hold the run's state."""

    def __init__(self, run: Run, trouble: str) -> None:
        super().__init__()
        self._props["run"] = run.id
        self.set_run(run, trouble)

    def set_run(self, run: Run, trouble: str) -> None:
        props = {
            "phase": enum_word(Phase.DESCRIPTOR, run.phase),
            "ended": run.phase in ENDED,
            "attempt": run.attempt,
            "trouble": trouble,
        }
        if any(self._props.get(name) != value for name, value in props.items()):
            self._props.update(props)
            self.update()


async def draw_live(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    view = LiveView(answer.run, context.live.trouble)

    def refresh() -> None:
        entry = context.runs.table.get(answer.run.id)
        view.set_run(entry.run if entry is not None else answer.run, context.live.trouble)

    ui.timer(0.5, refresh)
