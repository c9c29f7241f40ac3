"""The page of one run: head, links and tabs. Every tab has its own address."""

from __future__ import annotations

from fastapi import Request
from nicegui import ui

from runspine.errors import RunspineError
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.elements.notices import problem
from runspine.services.dashboard.pages.run.charts import draw_charts
from runspine.services.dashboard.pages.run.code import draw_code
from runspine.services.dashboard.pages.run.config import draw_config
from runspine.services.dashboard.pages.run.episodes import draw_episodes
from runspine.services.dashboard.pages.run.evaluations import draw_evaluations
from runspine.services.dashboard.pages.run.files import draw_files
from runspine.services.dashboard.pages.run.head import RunHead
from runspine.services.dashboard.pages.run.history import draw_history
from runspine.services.dashboard.pages.run.links import draw_links
from runspine.services.dashboard.pages.run.live import draw_live
from runspine.services.dashboard.pages.run.logs import draw_logs
from runspine.services.dashboard.pages.run.play import draw_play
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY
from runspine.wire.v1.trainer_pb2 import GetRequest, GetResponse

TABS = {
    "play": ("Play", draw_play),
    "charts": ("Charts", draw_charts),
    "live": ("Live", draw_live),
    "episodes": ("Episodes", draw_episodes),
    "evaluations": ("Evaluations", draw_evaluations),
    "files": ("Files", draw_files),
    "logs": ("Log", draw_logs),
    "config": ("Parameters", draw_config),
    "code": ("Code", draw_code),
    "history": ("History", draw_history),
}
# Tabs that only runs of one mode have, and that they open with.
MODE_TABS = {EVALUATE: "evaluations", PLAY: "play"}


def add_run_page(context: PageContext) -> None:
    @page("/run/{run_id}")
    async def run(request: Request, run_id: str, tab: str = "") -> None:
        visitor = context.visitor(request)
        with frame(context, visitor, "Run", "/"):
            try:
                answer = await visitor.access.call("trainer", "Get", GetRequest(run_id=run_id))
            except RunspineError as error:
                problem("This run cannot be loaded", str(error), "All runs", "/")
                return
            ui.page_title(f"{answer.run.name} · Runspine")
            await _draw(context, visitor, answer, tab)


async def _draw(context: PageContext, visitor: Visitor, answer: GetResponse, tab: str) -> None:
    RunHead(context, visitor, answer).draw()
    draw_links(context, visitor, answer.run)
    address = f"/run/{answer.run.id}"
    # Only evaluations have batches, and only play sessions have keys.
    own = MODE_TABS.get(answer.run.spec.mode, "")
    shown = {key: title for key, (title, _) in TABS.items() if key not in MODE_TABS.values() or key == own}
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
            await TABS[name][1](context, visitor, answer)

    with ui.tab_panels(tabs, value=tab, animated=False).classes("rs-panels"):
        panels = {key: ui.tab_panel(key) for key in TABS}
    ui.timer(0.01, lambda: open_tab(tab), once=True)

    async def turn(name: str) -> None:
        ui.run_javascript(f"history.replaceState(null, '', '{address}?tab={name}')")
        await open_tab(name)

    tabs.on_value_change(lambda event: turn(str(event.value)))
