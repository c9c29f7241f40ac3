"""The words of a run: the newest lines live, and a search through all of them."""

from __future__ import annotations

import asyncio
from collections import deque

from nicegui import background_tasks, ui

from runspine.cli.text import clock, without_colour
from runspine.errors import RunspineError
from runspine.wire.v1.telemetry_pb2 import STDERR, WORKER, LogLine, SearchLogsRequest, StreamLogsRequest
from runspine.wire.v1.trainer_pb2 import GetResponse
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.plaintext import block

# Lines that a page holds; older ones are found by search.
MOST_LINES = 2000
LONGEST = 2000
PUSH_SECONDS = 0.25


async def draw_logs(desk: Desk, visitor: Visitor, answer: GetResponse) -> None:
    LogDrawer(desk, visitor, answer.run.id).draw()


class LogDrawer:
    def __init__(self, desk: Desk, visitor: Visitor, run_id: str) -> None:
        self._desk = desk
        self._visitor = visitor
        self._run_id = run_id
        self._waiting: deque[LogLine] = deque(maxlen=MOST_LINES)

    def draw(self) -> None:
        with ui.row().classes("rs-bar"):
            search = (
                ui.input(placeholder="Search all lines… (Enter)")
                .props('dense outlined clearable aria-label="Search the log"')
                .classes("rs-search")
            )
            expression = ui.checkbox("regular expression")
        self._found = ui.column().classes("w-full")
        self._log = ui.log(max_lines=MOST_LINES).classes("rs-log")
        search.on("keydown.enter", lambda: self._search(search.value or "", bool(expression.value)))
        task = background_tasks.create(self._follow())
        ui.context.client.on_delete(task.cancel)
        self._desk.heart.every(PUSH_SECONDS, self._push)

    async def _follow(self) -> None:
        request = StreamLogsRequest(run_id=self._run_id, follow=True)
        while True:
            try:
                async for message in self._visitor.access.follow("telemetry", "StreamLogs", request):
                    request.after = max(request.after, message.position)
                    self._waiting.extend(message.lines)
                return
            except RunspineError:
                await asyncio.sleep(2.0)

    def _push(self) -> None:
        lines = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_LINES))]
        for line in lines:
            self._log.push(_text(line), classes=_look(line))

    async def _search(self, text: str, expression: bool) -> None:
        self._found.clear()
        if not text:
            return
        request = SearchLogsRequest(run_id=self._run_id, text=text, regular_expression=expression, limit=200)
        found: list[str] = []
        with self._found:
            try:
                async for message in self._visitor.access.follow("telemetry", "SearchLogs", request):
                    found += [f"{line.number:>7}  {_text(line)}" for line in message.lines]
            except RunspineError as error:
                ui.label(str(error)).classes("rs-bad")
                return
            more = " (the first 200)" if len(found) >= 200 else ""
            ui.label(f"{len(found)} lines found{more}").classes("rs-section")
            if found:
                block("\n".join(found), "rs-found")


def _text(line: LogLine) -> str:
    text = without_colour(line.text)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} … ({len(line.text):,} characters; `runspine logs` shows them all)"
    return f"{clock(line.at)}  {text}"


def _look(line: LogLine) -> str:
    return {STDERR: "rs-log-err", WORKER: "rs-log-worker"}.get(line.source, "")
