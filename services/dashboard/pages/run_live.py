"""A run as it happens: the envs of all its slots, drawn while somebody looks at this tab."""

from __future__ import annotations

from pathlib import Path

from nicegui import ui
from nicegui.element import Element

from runspine.plain import enum_word
from runspine.run import ENDED
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.trainer_pb2 import GetResponse
from services.dashboard.pages.desk import Desk, Visitor

STATIC = Path(__file__).parents[1] / "static"


class LiveView(Element, component=STATIC / "live.js"):
    """Frames come over a web socket of the component's own; the server only says how the run stands."""

    def __init__(self, run: Run, trouble: str) -> None:
        super().__init__()
        self._props["run"] = run.id
        self.tell(run, trouble)

    def tell(self, run: Run, trouble: str) -> None:
        said = {
            "phase": enum_word(Phase.DESCRIPTOR, run.phase),
            "ended": run.phase in ENDED,
            "attempt": run.attempt,
            "trouble": trouble,
        }
        if any(self._props.get(name) != value for name, value in said.items()):
            self._props.update(said)
            self.update()


async def draw_live(desk: Desk, visitor: Visitor, answer: GetResponse) -> None:
    view = LiveView(answer.run, desk.live.trouble)

    def refresh() -> None:
        entry = desk.following.book.get(answer.run.id)
        view.tell(entry.run if entry is not None else answer.run, desk.live.trouble)

    ui.timer(0.5, refresh)
