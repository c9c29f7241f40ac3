"""The episodes tab: a table by time, return or length, and the scrubber."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from runspine.errors import RunspineError
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.notices import empty, problem
from runspine.services.dashboard.pages.elements.scrubber import EpisodeScrubber, ScrubbedEpisode
from runspine.services.dashboard.pages.run.fork_dialog import open_fork_dialog
from runspine.text.values import clock, number
from runspine.wire.v1.telemetry_pb2 import (
    BY_LENGTH,
    BY_RETURN,
    BY_TIME,
    EpisodeEntry,
    ListEpisodesRequest,
    ListEpisodesResponse,
)
from runspine.wire.v1.trainer_pb2 import GetResponse

PAGE_SIZE = 20
FOLLOW_SECONDS = 2.0
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


async def draw_episodes(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    await EpisodesTab(context, visitor, answer.run.id, answer.run.name).draw()


class EpisodesTab:
    def __init__(self, context: PageContext, visitor: Visitor, run_id: str, name: str) -> None:
        self._context = context
        self._visitor = visitor
        self._run_id = run_id
        self._name = name
        # Tokens of the pages up to this one.
        self._pages = [""]
        self._scrubber: EpisodeScrubber | None = None
        self._shown = 0
        # Episodes of the run when they were last listed.
        self._listed = 0

    async def draw(self) -> None:
        self._stage = ui.column().classes("w-full")
        with ui.row().classes("rs-bar"):
            self._order = ui.select(list(ORDERS), value="best return").props(
                'dense outlined aria-label="Order"'
            )
            self._order.on_value_change(self._first_page)
            if self._visitor.person.may_run:
                ui.button("Fork from here", icon="call_split", on_click=self._fork).props("flat dense")
            ui.space()
            self._count = ui.label().classes("rs-quiet")
            self._back = _arrow("chevron_left", "Previous page", self._previous_page)
            self._forward = _arrow("chevron_right", "Next page", self._next_page)
        self._table = ui.column().classes("w-full")
        await self._refresh(play=True)
        self._context.refresher.every(FOLLOW_SECONDS, self._follow, at_once=False)

    async def _follow(self) -> None:
        """List the first page again when the run has new episodes; the episode on stage stays."""
        if len(self._pages) == 1 and self._episodes() != self._listed:
            await self._refresh(play=self._scrubber is None)

    def _episodes(self) -> int:
        entry = self._context.runs.table.get(self._run_id)
        return entry.progress.episodes if entry is not None else 0

    async def _first_page(self) -> None:
        self._pages = [""]
        await self._refresh()

    async def _previous_page(self) -> None:
        self._pages = self._pages[:-1] or [""]
        await self._refresh()

    async def _next_page(self) -> None:
        self._pages.append(self._next)
        await self._refresh()

    async def _refresh(self, *, play: bool = False) -> None:
        order, descending = ORDERS[str(self._order.value)]
        request = ListEpisodesRequest(
            run_id=self._run_id,
            order=order,
            descending=descending,
            page_size=PAGE_SIZE,
            page_token=self._pages[-1],
        )
        episodes = self._episodes()
        try:
            answer = await self._visitor.access.call("telemetry", "ListEpisodes", request)
        except RunspineError as error:
            self._table.clear()
            with self._table:
                problem("The episodes cannot be loaded", str(error))
            return
        self._listed = episodes
        self._table.clear()
        with self._table:
            self._next = answer.next_page_token
            self._count.set_text(f"{answer.total:,} episodes, page {len(self._pages)}")
            self._back.set_enabled(len(self._pages) > 1)
            self._forward.set_enabled(bool(self._next))
            if not answer.episodes:
                empty("No episodes yet", "Episodes appear here when they end.")
                return
            self._rows(answer)
        if play:
            self._play(answer.episodes[0].index)

    def _rows(self, answer: ListEpisodesResponse) -> None:
        table = ui.table(columns=COLUMNS, rows=[_row(each) for each in answer.episodes], row_key="index")
        table.props("dense flat").classes("rs-card w-full rs-clickable")
        table.on("rowClick", lambda event: self._play(int(event.args[1]["index"])))
        with table.add_slot("body-cell-index"):
            # A button, so that it is reachable by keyboard.
            button = ui.element("q-td").props(':props="props"')
            with button:
                ui.element("q-btn").props(
                    'flat dense no-caps color="primary" icon="play_circle" :label="String(props.row.index)"'
                )

    async def _fork(self) -> None:
        await open_fork_dialog(self._visitor, self._run_id, self._shown)

    def _play(self, index: int) -> None:
        self._shown = index
        played = [ScrubbedEpisode(self._run_id, str(index), self._name)]
        if self._scrubber is None:
            with self._stage:
                self._scrubber = EpisodeScrubber(played)
        else:
            self._scrubber.show(played)


def _row(entry: EpisodeEntry) -> dict[str, Any]:
    episode = entry.episode
    return {
        "index": entry.index,
        "return": number(getattr(episode, "return")),
        "steps": f"{episode.steps:,}" if episode.HasField("steps") else "",
        "end": ENDS[episode.flags & 3],
        "slot": episode.slot,
        "at": clock(episode.ended_at),
    }


def _arrow(icon: str, label: str, act: Any) -> ui.button:
    return ui.button(icon=icon, on_click=act).props(f'flat dense round aria-label="{label}"')
