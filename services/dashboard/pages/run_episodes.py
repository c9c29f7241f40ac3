"""Episodes of a run by time, return or length, and any of them again, step by step."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from runspine.cli.text import clock, number
from runspine.errors import RunspineError
from runspine.wire.v1.telemetry_pb2 import (
    BY_LENGTH,
    BY_RETURN,
    BY_TIME,
    EpisodeEntry,
    ListEpisodesRequest,
    ListEpisodesResponse,
)
from runspine.wire.v1.trainer_pb2 import GetResponse
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.forking import ask_fork
from services.dashboard.pages.notices import empty, problem
from services.dashboard.pages.scrubber import Played, Scrubber

PAGE = 20
ORDERS = {
    "newest first": (BY_TIME, True),
    "oldest first": (BY_TIME, False),
    "best return": (BY_RETURN, True),
    "worst return": (BY_RETURN, False),
    "longest": (BY_LENGTH, True),
    "shortest": (BY_LENGTH, False),
}
ENDS = ("", "terminated", "truncated", "terminated, truncated")
COLUMNS = [
    {"name": "index", "label": "Episode", "field": "index", "align": "left"},
    {"name": "return", "label": "Return", "field": "return", "align": "right"},
    {"name": "steps", "label": "Steps", "field": "steps", "align": "right"},
    {"name": "end", "label": "Ended", "field": "end", "align": "left"},
    {"name": "slot", "label": "Slot", "field": "slot", "align": "right"},
    {"name": "at", "label": "At", "field": "at", "align": "left"},
]


async def draw_episodes(desk: Desk, visitor: Visitor, answer: GetResponse) -> None:
    await EpisodesTab(visitor, answer.run.id, answer.run.name).draw()


class EpisodesTab:
    def __init__(self, visitor: Visitor, run_id: str, name: str) -> None:
        self._visitor = visitor
        self._run_id = run_id
        self._name = name
        # Tokens of the pages before this one.
        self._pages = [""]
        self._scrubber: Scrubber | None = None
        self._shown = 0

    async def draw(self) -> None:
        self._stage = ui.column().classes("w-full")
        with ui.row().classes("rs-bar"):
            self._order = ui.select(list(ORDERS), value="best return").props(
                'dense outlined aria-label="Order"'
            )
            self._order.on_value_change(self._first)
            if self._visitor.person.may_run:
                ui.button("Go on from here", icon="call_split", on_click=self._fork).props("flat dense")
            ui.space()
            self._count = ui.label().classes("rs-quiet")
            self._back = _arrow("chevron_left", "Page before", self._before)
            self._on = _arrow("chevron_right", "Next page", self._after)
        self._table = ui.column().classes("w-full")
        await self._look(play=True)

    async def _first(self) -> None:
        self._pages = [""]
        await self._look()

    async def _before(self) -> None:
        self._pages = self._pages[:-1] or [""]
        await self._look()

    async def _after(self) -> None:
        self._pages.append(self._next)
        await self._look()

    async def _look(self, *, play: bool = False) -> None:
        order, descending = ORDERS[str(self._order.value)]
        request = ListEpisodesRequest(
            run_id=self._run_id,
            order=order,
            descending=descending,
            page_size=PAGE,
            page_token=self._pages[-1],
        )
        self._table.clear()
        with self._table:
            try:
                answer = await self._visitor.access.ask("telemetry", "ListEpisodes", request)
            except RunspineError as error:
                problem("The episodes cannot be shown now", str(error))
                return
            self._next = answer.next_page_token
            self._count.set_text(f"{answer.total:,} episodes, page {len(self._pages)}")
            self._back.set_enabled(len(self._pages) > 1)
            self._on.set_enabled(bool(self._next))
            if not answer.episodes:
                empty("No episode has ended yet", "Episodes appear here as they end.")
                return
            self._rows(answer)
        if play:
            self._play(answer.episodes[0].index)

    def _rows(self, answer: ListEpisodesResponse) -> None:
        table = ui.table(columns=COLUMNS, rows=[_row(each) for each in answer.episodes], row_key="index")
        table.props("dense flat").classes("rs-card w-full rs-clickable")
        table.on("rowClick", lambda event: self._play(int(event.args[1]["index"])))
        with table.add_slot("body-cell-index"):
            # A button, so that the keyboard reaches it.
            button = ui.element("q-td").props(':props="props"')
            with button:
                ui.element("q-btn").props(
                    'flat dense no-caps color="primary" icon="play_circle" :label="String(props.row.index)"'
                )

    async def _fork(self) -> None:
        await ask_fork(self._visitor, self._run_id, self._shown)

    def _play(self, index: int) -> None:
        self._shown = index
        played = [Played(self._run_id, str(index), self._name)]
        if self._scrubber is None:
            with self._stage:
                self._scrubber = Scrubber(played)
        else:
            self._scrubber.show(played)


def _row(entry: EpisodeEntry) -> dict[str, Any]:
    episode = entry.episode
    return {
        "index": entry.index,
        "return": number(getattr(episode, "return")),
        "steps": f"{episode.steps:,}",
        "end": ENDS[episode.flags & 3],
        "slot": episode.slot,
        "at": clock(episode.ended_at),
    }


def _arrow(icon: str, label: str, act: Any) -> ui.button:
    return ui.button(icon=icon, on_click=act).props(f'flat dense round aria-label="{label}"')
