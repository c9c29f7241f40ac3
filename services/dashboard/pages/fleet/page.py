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
from runspine.services.dashboard.pages.elements.notices import empty, problem, wait_for_browser
from runspine.services.dashboard.pages.elements.section import Section
from runspine.services.dashboard.pages.elements.tables import plain_table
from runspine.services.dashboard.pages.fleet.storage import draw_storage, draw_storage_error, get_storage
from runspine.spec.plain import enum_word
from runspine.text.machines import disk_text, gpus_text, run_folders_text
from runspine.text.values import size, span
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
AGE_STEP_SECONDS = 10


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
        self._trouble, self._workers, self._queue, self._runners, self._log, self._storage = (
            Section() for _ in range(6)
        )
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
        silent = any(_silence_seconds(worker) > 2 * AGE_STEP_SECONDS for worker in workers)
        moment = int(time.time()) // AGE_STEP_SECONDS if silent else 0
        self._workers.show(
            ([_without_heartbeat(worker) for worker in workers], moment), lambda: _workers(workers)
        )
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


def _silence_seconds(worker: Worker) -> float:
    """Seconds since the last heartbeat."""
    return time.time() - worker.last_heard / 1e6


def _without_heartbeat(worker: Worker) -> str:
    """The worker as text without what changes with every heartbeat."""
    found = Worker()
    found.CopyFrom(worker)
    found.last_heard = 0
    # A few bytes more or less on its disk are not shown either.
    found.ClearField("machine")
    return f"{found}{_machine_texts(worker)}"


def _machine_texts(worker: Worker) -> tuple[str, str]:
    machine = worker.machine
    disk = " · ".join(filter(None, (disk_text(machine), run_folders_text(machine))))
    return disk, gpus_text(machine)


def queued_runs(table: RunTable) -> Counter[tuple[str, int]]:
    """Number of queued runs by pool and priority."""
    return Counter(
        (entry.run.spec.pool or DEFAULT_POOL, entry.run.priority)
        for entry in table.entries()
        if entry.run.phase == QUEUED
    )


def _workers(workers: list[Worker]) -> None:
    ui.label("Workers").classes("rs-section")
    if not workers:
        empty("No workers yet", "Start one with runspine up or python -m runspine.services.worker.")
        return
    with ui.element("div").classes("rs-cards"):
        for worker in sorted(workers, key=lambda each: (not each.online, each.id)):
            _worker(worker)


def _worker(worker: Worker) -> None:
    busy = len(worker.running) if worker.online else 0
    with ui.card().classes("rs-card rs-tile"):
        with ui.row().classes("items-center gap-2"):
            ui.label("online" if worker.online else "offline").classes(
                "rs-badge " + ("rs-running" if worker.online else "rs-cancelled")
            )
            ui.label(worker.id).classes("rs-tile-name")
        ui.label(f"{busy} of {worker.slots} slots busy · pools {', '.join(worker.pools)}")
        with ui.element("div").classes("rs-track w-full"):
            ui.element("div").classes("rs-fill").style(f"width: {busy / max(1, worker.slots):.0%}")
        has = [f"{worker.capacity.cpus:g} cores", size(worker.capacity.memory_mib << 20)]
        has += (
            [f"{len(worker.capacity.gpus)} × {worker.capacity.gpus[0]}"]
            if worker.capacity.gpus
            else ["no GPU"]
        )
        ui.label(" · ".join(has)).classes("rs-quiet")
        for text in filter(None, _machine_texts(worker)):
            ui.label(text).classes("rs-quiet")
        # The card is not redrawn for every heartbeat, so it does not count seconds.
        silence = _silence_seconds(worker)
        ago = "just now" if silence <= 2 * AGE_STEP_SECONDS else f"{span(silence)} ago"
        ui.label(f"{worker.host}, version {worker.version}, last heartbeat {ago}").classes("rs-quiet")
        if worker.reason:
            ui.label(worker.reason).classes("rs-bad")
        for run_id in worker.running if worker.online else ():
            ui.link(run_id, f"/run/{run_id}").classes("rs-mono")


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
