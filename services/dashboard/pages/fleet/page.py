"""The fleet page: workers, queue, runners, streams, storage and retention."""

from __future__ import annotations

import time
from collections import Counter

from fastapi import Request
from nicegui import ui

from runspine.domain.defaults import DEFAULT_POOL
from runspine.errors import RunspineError
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.ingest_lag import ingest_lag
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.elements.notices import problem, wait_for_browser
from runspine.services.dashboard.pages.elements.section import Section
from runspine.services.dashboard.pages.elements.tables import plain_table
from runspine.services.dashboard.pages.fleet.storage import draw_storage, draw_storage_error, get_storage
from runspine.services.dashboard.pages.fleet.worker_cards import (
    AGE_STEP_SECONDS,
    WorkerCards,
    silence_seconds,
)
from runspine.spec.plain import enum_word
from runspine.text.values import size
from runspine.wire.v1.run_pb2 import QUEUED, Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import Mode
from runspine.wire.v1.trainer_pb2 import (
    DescribeLogRequest,
    ListRunnersRequest,
    ListWorkersRequest,
    StreamInfo,
)

REFRESH_SECONDS = 2.0
STORAGE_REFRESH_SECONDS = 30.0


def add_fleet_page(context: PageContext) -> None:
    @page("/fleet")
    async def fleet(request: Request) -> None:
        visitor = context.visitor(request)
        with frame(context, visitor, "Fleet", "/fleet"):
            await wait_for_browser("Loading the fleet…")
            await FleetPage(context, visitor).draw()


class FleetPage:
    def __init__(self, context: PageContext, visitor: Visitor) -> None:
        self._context = context
        self._visitor = visitor

    async def draw(self) -> None:
        self._trouble, self._workers = Section(), WorkerCards()
        self._queue, self._runners, self._log, self._storage = (Section() for _ in range(4))
        await self._refresh()
        await self._refresh_storage()
        self._context.refresher.every(REFRESH_SECONDS, self._refresh, at_once=False)
        self._context.refresher.every(STORAGE_REFRESH_SECONDS, self._refresh_storage, at_once=False)

    async def _refresh(self) -> None:
        """Redraw each section whose content has changed."""
        key, moment = (self._visitor.access.audience, "fleet"), int(time.monotonic() / REFRESH_SECONDS)
        try:
            workers, runners, streams = await self._context.shared.get(key, moment, self._fetch)
        except RunspineError as error:
            message = str(error)
            self._trouble.show(message, lambda: problem("The fleet cannot be loaded", message))
            return
        self._trouble.show("", lambda: None)
        lag = await self._context.shared.get(
            "lag", moment, lambda: ingest_lag(self._context.telemetry_metrics)
        )
        queue = queued_runs(self._context.runs.table)
        # The age of a silent worker's last heartbeat is updated every ten seconds.
        silent = any(silence_seconds(worker) > 2 * AGE_STEP_SECONDS for worker in workers)
        moment = int(time.time()) // AGE_STEP_SECONDS if silent else 0
        self._workers.show(workers, moment)
        self._queue.show(sorted(queue.items()), lambda: _queue(queue))
        self._runners.show([str(runner) for runner in runners], lambda: _runners(runners))
        self._log.show(([str(stream) for stream in streams], lag), lambda: _streams(streams, lag))

    async def _fetch(self) -> tuple[list[Worker], list[RunnerInfo], list[StreamInfo]]:
        call = self._visitor.access.call
        workers = (await call("trainer", "ListWorkers", ListWorkersRequest())).workers
        runners = (await call("trainer", "ListRunners", ListRunnersRequest())).runners
        streams = (await call("trainer", "DescribeLog", DescribeLogRequest())).streams
        return list(workers), list(runners), list(streams)

    async def _refresh_storage(self) -> None:
        key = (self._visitor.access.audience, "storage")
        try:
            usage, rules = await self._context.shared.get(key, 0, lambda: get_storage(self._visitor.access))
        except RunspineError as error:
            message = str(error)
            self._storage.show(message, lambda: draw_storage_error(message))
            return
        self._storage.show((str(usage), str(rules)), lambda: draw_storage(usage, rules))


def queued_runs(table: RunTable) -> Counter[tuple[str, int]]:
    """Number of queued runs by pool and priority."""
    return Counter(
        (entry.run.spec.pool or DEFAULT_POOL, entry.run.priority)
        for entry in table.entries()
        if entry.run.phase == QUEUED
    )


def _queue(queue: Counter[tuple[str, int]]) -> None:
    ui.label("Queue").classes("rs-section")
    if not queue:
        ui.label("No runs are queued.").classes("rs-quiet")
        return
    rows = [
        {"pool": pool, "priority": priority, "runs": count}
        for (pool, priority), count in sorted(queue.items(), key=lambda item: (item[0][0], -item[0][1]))
    ]
    plain_table(rows)


def _runners(runners: list[RunnerInfo]) -> None:
    ui.label("Runners").classes("rs-section")
    rows = [
        {
            "runner": info.name,
            "ready": f"no: {info.not_ready}" if info.not_ready else "yes",
            "modes": ", ".join(enum_word(Mode.DESCRIPTOR, mode) for mode in info.modes),
            "resumes": "yes" if info.resumes else "–",
            "warm start": "yes" if info.warm_starts else "–",
            "videos": "yes" if info.videos else "–",
            "GPU": "needed" if info.needs_gpu else "used" if info.uses_gpu else "–",
            "algorithms": ", ".join(algo.name for algo in info.algos) or "any",
            "services": ", ".join(info.services) or "–",
        }
        for info in runners
    ]
    if rows:
        plain_table(rows, "w-full")
    else:
        ui.label("No worker offers a runner.").classes("rs-quiet")


def _streams(streams: list[StreamInfo], lag: int | None) -> None:
    ui.label("Streams").classes("rs-section")
    if lag is not None:
        ui.label(f"Ingest lag of telemetry: {lag:,} messages").classes("rs-quiet")
    rows = [
        {
            "stream": info.name,
            "messages": f"{info.commits:,}",
            "bytes": size(info.bytes),
            "last": f"{info.last_sequence:,}",
        }
        for info in streams
    ]
    if rows:
        plain_table(rows)
