"""The log tab: the newest lines live, and a search through all lines."""

from __future__ import annotations

import asyncio
from collections import deque

from nicegui import background_tasks, ui

from runspine.errors import RunspineError
from runspine.rpc.lines_once import LinesOnce
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.plain_text import block
from runspine.text.values import clock, without_colour
from runspine.wire.v1.telemetry_pb2 import (
    MIND,
    STDERR,
    TURN,
    WORKER,
    LogLine,
    SearchLogsRequest,
    StreamLogsRequest,
)
from runspine.wire.v1.trainer_pb2 import GetResponse

# Lines that a page holds; search covers all.
MAX_LINES = 2000
MAX_LINE_LENGTH = 2000
PUSH_SECONDS = 0.25


async def draw_logs(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    LogsTab(context, visitor, answer.run.id).draw()


class LogsTab:
    def __init__(self, context: PageContext, visitor: Visitor, run_id: str) -> None:
        self._context = context
        self._visitor = visitor
        self._run_id = run_id
        self._waiting: deque[LogLine] = deque(maxlen=MAX_LINES)

    def draw(self) -> None:
        with ui.row().classes("rs-bar"):
            search = (
                ui.input(placeholder="Search all lines… (Enter)")
                .props('dense outlined clearable aria-label="Search the log"')
                .classes("rs-search")
            )
            expression = ui.checkbox("regular expression")
        self._found = ui.column().classes("w-full")
        self._log = ui.log(max_lines=MAX_LINES).classes("rs-log")
        search.on("keydown.enter", lambda: self._search(search.value or "", bool(expression.value)))
        task = background_tasks.create(self._follow())
        ui.context.client.on_delete(task.cancel)
        self._context.refresher.every(PUSH_SECONDS, self._push)

    async def _follow(self) -> None:
        request = StreamLogsRequest(run_id=self._run_id, follow=True)
        once = LinesOnce(request)
        while True:
            try:
                async for message in self._visitor.access.stream("telemetry", "StreamLogs", request):
                    # Minds and turns are no output.
                    lines = once.take(message)
                    self._waiting.extend(line for line in lines if line.source not in (MIND, TURN))
                return
            except RunspineError:
                await asyncio.sleep(2.0)

    def _push(self) -> None:
        lines = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_LINES))]
        for line in lines:
            self._log.push(_text(line), classes=_line_class(line))

    async def _search(self, text: str, expression: bool) -> None:
        self._found.clear()
        if not text:
            return
        request = SearchLogsRequest(run_id=self._run_id, text=text, regular_expression=expression, limit=200)
        found: list[str] = []
        with self._found:
            try:
                async for message in self._visitor.access.stream("telemetry", "SearchLogs", request):
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
    if len(text) > MAX_LINE_LENGTH:
        text = f"{text[:MAX_LINE_LENGTH]} … ({len(line.text):,} characters; see `runspine logs`)"
    return f"{clock(line.at)}  {text}"


def _line_class(line: LogLine) -> str:
    return {STDERR: "rs-log-err", WORKER: "rs-log-worker"}.get(line.source, "")
