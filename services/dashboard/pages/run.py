"""One run: its state, its curves, its words, its history. Every tab has an address of its own."""

from __future__ import annotations

from fastapi import Request
from nicegui import ui

from runspine.errors import RunspineError
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY
from runspine.wire.v1.trainer_pb2 import GetRequest, GetResponse
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.frame import frame, page
from services.dashboard.pages.notices import problem
from services.dashboard.pages.run_charts import draw_charts
from services.dashboard.pages.run_config import draw_config
from services.dashboard.pages.run_episodes import draw_episodes
from services.dashboard.pages.run_evaluations import draw_evaluations
from services.dashboard.pages.run_files import draw_files
from services.dashboard.pages.run_head import RunHead
from services.dashboard.pages.run_history import draw_history
from services.dashboard.pages.run_links import draw_links
from services.dashboard.pages.run_live import draw_live
from services.dashboard.pages.run_logs import draw_logs
from services.dashboard.pages.run_play import draw_play

TABS = {
    "play": ("Play", draw_play),
    "charts": ("Charts", draw_charts),
    "live": ("Live", draw_live),
    "episodes": ("Episodes", draw_episodes),
    "evaluations": ("Evaluations", draw_evaluations),
    "files": ("Files", draw_files),
    "logs": ("Log", draw_logs),
    "config": ("Parameters", draw_config),
    "history": ("History", draw_history),
}
# Tabs that only runs of one mode have, and begin with.
OWN = {EVALUATE: "evaluations", PLAY: "play"}


def add_run_page(desk: Desk) -> None:
    @page("/run/{run_id}")
    async def run(request: Request, run_id: str, tab: str = "") -> None:
        visitor = desk.visitor(request)
        with frame(desk, visitor, "Run", "/"):
            try:
                answer = await visitor.access.ask("trainer", "Get", GetRequest(run_id=run_id))
            except RunspineError as error:
                problem("This run cannot be shown", str(error), "All runs", "/")
                return
            ui.page_title(f"{answer.run.name} · Runspine")
            await _draw(desk, visitor, answer, tab)


async def _draw(desk: Desk, visitor: Visitor, answer: GetResponse, tab: str) -> None:
    RunHead(desk, visitor, answer).draw()
    draw_links(visitor, answer.run)
    address = f"/run/{answer.run.id}"
    # Batches of episodes are an evaluation's, and keys a session's; other runs have none.
    own = OWN.get(answer.run.spec.mode, "")
    shown = {key: title for key, (title, _) in TABS.items() if key not in OWN.values() or key == own}
    if tab not in shown:
        tab = own or "charts"
    with ui.tabs().classes("rs-tabs").props("no-caps inline-label outside-arrows mobile-arrows") as tabs:
        for key, title in shown.items():
            ui.tab(key, title)
    drawn: set[str] = set()

    async def open_tab(name: str) -> None:
        if name in drawn:
            return
        drawn.add(name)
        with panels[name]:
            await TABS[name][1](desk, visitor, answer)

    with ui.tab_panels(tabs, value=tab, animated=False).classes("rs-panels"):
        panels = {key: ui.tab_panel(key) for key in TABS}
    ui.timer(0.01, lambda: open_tab(tab), once=True)

    async def turn(name: str) -> None:
        ui.run_javascript(f"history.replaceState(null, '', '{address}?tab={name}')")
        await open_tab(name)

    tabs.on_value_change(lambda event: turn(str(event.value)))
