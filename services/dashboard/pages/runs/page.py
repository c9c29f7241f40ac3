"""The start page: all runs in one live table, with search, filters and groups."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Request
from nicegui import ui

from runspine.domain.run import ACTIVE
from runspine.services.dashboard.core.run_groups import KEYS, RunGroup, group_runs
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.runs.actions import RunActions
from runspine.services.dashboard.pages.runs.grid import OPTIONS
from runspine.spec.plain import enum_word
from runspine.wire.v1.run_pb2 import Phase

# How often changed rows are pushed to the browser.
PUSH_SECONDS = 0.2
GROUP_SECONDS = 2.0
# Larger updates are split, so that a page with thousands of runs stays responsive.
MAX_ROWS_PER_MESSAGE = 500
STATES = ("all", "active", "queued", "running", "stale", "completed", "failed", "cancelled", "quarantined")


def phases_of(state: str) -> list[str] | None:
    """Names of the phases that a choice of the state menu shows; None for all."""
    if state == "active":
        return [enum_word(Phase.DESCRIPTOR, phase) for phase in sorted(ACTIVE)]
    return None if state == "all" else [state]


@dataclass(slots=True)
class RunsQuery:
    """The query parameters of the page."""

    text: str = ""
    state: str = "all"
    by: str = ""
    group: str = ""

    def query(self) -> str:
        params = {
            "q": self.text,
            "state": self.state if self.state != "all" else "",
            "by": self.by,
            "in": self.group,
        }
        return urlencode({name: value for name, value in params.items() if value})


def add_runs_page(context: PageContext) -> None:
    @page("/")
    def runs(request: Request) -> None:
        visitor = context.visitor(request)
        params = request.query_params
        state, by = params.get("state", "all"), params.get("by", "")
        view = RunsQuery(
            params.get("q", ""),
            state if state in STATES else "all",
            by if by in KEYS else "",
            params.get("in", ""),
        )
        with frame(context, visitor, "Runs", "/"):
            RunsTable(context, visitor, view).draw()


class RunsTable:
    def __init__(self, context: PageContext, visitor: Visitor, view: RunsQuery) -> None:
        self._context = context
        self._visitor = visitor
        self._view = view
        self._version = 0
        # The grouping key, and the names of the drawn groups in order.
        self._drawn: list[str] = []
        self._cards: dict[str, tuple[ui.button, ui.label]] = {}

    def draw(self) -> None:
        view = self._view
        actions = RunActions(self._visitor)
        with ui.row().classes("rs-bar"):
            search = ui.input(placeholder="Search name, env, algo, label…", value=view.text)
            search.props('dense outlined clearable debounce="150" aria-label="Search runs"').classes(
                "rs-search"
            )
            state = ui.select(list(STATES), value=view.state).props('dense outlined aria-label="State"')
            by = ui.select({"": "no groups", **{key: f"by {key}" for key in KEYS}}, value=view.by)
            by.props('dense outlined aria-label="Group by"')
            ui.label().classes("rs-quiet rs-count").props('id="rs-count" role="status"')
            ui.space()
            actions.draw()
        self._groups = ui.row().classes("rs-groups")
        self._grid = ui.aggrid(OPTIONS, theme="quartz", auto_size_columns=False).classes("rs-grid")

        def change() -> None:
            view.text, view.state = str(search.value or ""), str(state.value)
            if by.value != view.by:
                view.by, view.group = str(by.value), ""
            self._show()

        for control in (search, state, by):
            control.on_value_change(change)
        self._show()
        self._context.refresher.every(PUSH_SECONDS, self._push)
        self._context.refresher.every(GROUP_SECONDS, self._draw_groups)

    def _show(self) -> None:
        """Apply the filter in the browser and write it to the address."""
        view = self._view
        query = view.query()
        filters = json.dumps(
            {"text": view.text, "phases": phases_of(view.state), "by": view.by, "group": view.group}
        )
        address = json.dumps(f"/?{query}" if query else "/")
        ui.run_javascript(f"rs.setFilter({filters}); history.replaceState(null, '', {address})")
        self._draw_groups()

    def _draw_groups(self) -> None:
        """A card for each group; pressing one shows only its runs. Existing cards only change their text."""
        found = group_runs(self._context.runs.table.entries(), self._view.by) if self._view.by else []
        drawn = [self._view.by, *(group.name for group in found)]
        if drawn != self._drawn:
            self._drawn = drawn
            self._groups.clear()
            with self._groups:
                self._cards = {group.name: self._card(group.name) for group in found}
        for group in found:
            button, text = self._cards[group.name]
            chosen = group.name == self._view.group
            button.classes(add="rs-chosen" if chosen else "", remove="" if chosen else "rs-chosen")
            if button.props.get("aria-pressed") != (pressed := str(chosen).lower()):
                button.props["aria-pressed"] = pressed
            text.set_text(group_text(group))

    def _card(self, name: str) -> tuple[ui.button, ui.label]:
        def press() -> None:
            self._view.group = "" if self._view.group == name else name
            self._show()

        button = ui.button(on_click=press).props("flat no-caps dense").classes("rs-group rs-card")
        with button:
            ui.label(name).classes("rs-group-name")
            text = ui.label().classes("rs-quiet")
        return button, text

    def _push(self) -> None:
        table = self._context.runs.table
        changed = table.changed_since(self._version)
        if not changed:
            return
        self._version = table.version
        for start in range(0, len(changed), MAX_ROWS_PER_MESSAGE):
            # Each row is encoded once, however many pages receive it.
            rows = ",".join(entry.as_json() for entry in changed[start : start + MAX_ROWS_PER_MESSAGE])
            ui.run_javascript(f"rs.rows([{rows}])")


def group_text(group: RunGroup) -> str:
    parts = [f"{group.runs} run{'' if group.runs == 1 else 's'}"]
    parts += [f"{group.active} active"] if group.active else []
    parts += [f"{group.failed} failed"] if group.failed else []
    parts += [f"best {group.best:.4g}"] if group.best is not None else []
    return " · ".join(parts)
