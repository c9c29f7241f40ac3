"""All runs in one live table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Request
from nicegui import ui

from services.dashboard.core.group import KEYS, Pile, piles
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.frame import frame, page
from services.dashboard.pages.runs_acts import RunsActs
from services.dashboard.pages.runs_grid import OPTIONS

# Changes are pushed at most this often.
PUSH_SECONDS = 0.2
GROUP_SECONDS = 2.0
# More rows in one message than this are sent in pieces, so that a page with thousands of runs stays smooth.
PIECE = 500
STATES = ("all", "active", "queued", "running", "stale", "completed", "failed", "cancelled")


@dataclass(slots=True)
class View:
    """What the address says."""

    text: str = ""
    state: str = "all"
    by: str = ""
    pile: str = ""

    def query(self) -> str:
        said = {
            "q": self.text,
            "state": self.state if self.state != "all" else "",
            "by": self.by,
            "in": self.pile,
        }
        return urlencode({name: value for name, value in said.items() if value})


def add_runs_page(desk: Desk) -> None:
    @page("/")
    def runs(request: Request) -> None:
        visitor = desk.visitor(request)
        asked = request.query_params
        state, by = asked.get("state", "all"), asked.get("by", "")
        view = View(
            asked.get("q", ""),
            state if state in STATES else "all",
            by if by in KEYS else "",
            asked.get("in", ""),
        )
        with frame(desk, visitor, "Runs", "/"):
            RunsTable(desk, visitor, view).draw()


class RunsTable:
    def __init__(self, desk: Desk, visitor: Visitor, view: View) -> None:
        self._desk = desk
        self._visitor = visitor
        self._view = view
        self._version = 0
        # What the groups are by, and their names in order.
        self._drawn: list[str] = []
        self._cards: dict[str, tuple[ui.button, ui.label]] = {}

    def draw(self) -> None:
        view = self._view
        acts = RunsActs(self._visitor)
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
            acts.draw()
        self._piles = ui.row().classes("rs-piles")
        self._grid = ui.aggrid(OPTIONS, theme="quartz", auto_size_columns=False).classes("rs-grid")
        acts.grid = self._grid

        def change() -> None:
            view.text, view.state = str(search.value or ""), str(state.value)
            if by.value != view.by:
                view.by, view.pile = str(by.value), ""
            self._show()

        for control in (search, state, by):
            control.on_value_change(change)
        self._show()
        self._desk.heart.every(PUSH_SECONDS, self._push)
        self._desk.heart.every(GROUP_SECONDS, self._draw_piles)

    def _show(self) -> None:
        """Filter in the browser, and say so in the address."""
        view = self._view
        query = view.query()
        said = json.dumps({"text": view.text, "state": view.state, "by": view.by, "pile": view.pile})
        address = json.dumps(f"/?{query}" if query else "/")
        ui.run_javascript(f"rs.setFilter({said}); history.replaceState(null, '', {address})")
        self._draw_piles()

    def _draw_piles(self) -> None:
        """A card for each group; pressing one shows only its runs. Cards stay, their words change."""
        found = piles(self._desk.following.book.entries(), self._view.by) if self._view.by else []
        drawn = [self._view.by, *(pile.name for pile in found)]
        if drawn != self._drawn:
            self._drawn = drawn
            self._piles.clear()
            with self._piles:
                self._cards = {pile.name: self._pile(pile.name) for pile in found}
        for pile in found:
            button, words = self._cards[pile.name]
            chosen = pile.name == self._view.pile
            button.classes(add="rs-chosen" if chosen else "", remove="" if chosen else "rs-chosen")
            if button.props.get("aria-pressed") != (pressed := str(chosen).lower()):
                button.props["aria-pressed"] = pressed
            words.set_text(pile_words(pile))

    def _pile(self, name: str) -> tuple[ui.button, ui.label]:
        def press() -> None:
            self._view.pile = "" if self._view.pile == name else name
            self._show()

        button = ui.button(on_click=press).props("flat no-caps dense").classes("rs-pile rs-card")
        with button:
            ui.label(name).classes("rs-pile-name")
            words = ui.label().classes("rs-quiet")
        return button, words

    def _push(self) -> None:
        book = self._desk.following.book
        changed = book.changed_since(self._version)
        if not changed:
            return
        self._version = book.version
        for start in range(0, len(changed), PIECE):
            # Each row is made into text once, however many pages it goes to.
            rows = ",".join(entry.as_json() for entry in changed[start : start + PIECE])
            ui.run_javascript(f"rs.rows([{rows}])")


def pile_words(pile: Pile) -> str:
    said = [f"{pile.runs} run{'' if pile.runs == 1 else 's'}"]
    said += [f"{pile.active} active"] if pile.active else []
    said += [f"{pile.failed} failed"] if pile.failed else []
    said += [f"best {pile.best:.4g}"] if pile.best is not None else []
    return " · ".join(said)
