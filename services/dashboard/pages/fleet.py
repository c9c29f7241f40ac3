"""Workers, runners, queue and health: where runs can go, and what is in the way."""

from __future__ import annotations

import time
from collections import Counter

from fastapi import Request
from nicegui import ui

from runspine.cli.text import size, span
from runspine.errors import RunspineError
from runspine.plain import enum_word
from runspine.wire.v1.run_pb2 import QUEUED, Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import Mode
from runspine.wire.v1.trainer_pb2 import (
    DescribeLogRequest,
    ListRunnersRequest,
    ListWorkersRequest,
    StreamInfo,
)
from services.dashboard.core.runbook import RunBook
from services.dashboard.edges.lag import ingest_lag
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.fleet_storage import ask_storage, draw_storage, draw_storage_trouble
from services.dashboard.pages.frame import frame, page
from services.dashboard.pages.notices import empty, problem, until_open
from services.dashboard.pages.section import Section
from services.dashboard.pages.tables import plain_table

LOOK_SECONDS = 2.0
STORAGE_SECONDS = 30.0
HEARD_SECONDS = 10


def add_fleet_page(desk: Desk) -> None:
    @page("/fleet")
    async def fleet(request: Request) -> None:
        visitor = desk.visitor(request)
        with frame(desk, visitor, "Fleet", "/fleet"):
            await until_open("Looking around…")
            await FleetPage(desk, visitor).draw()


class FleetPage:
    def __init__(self, desk: Desk, visitor: Visitor) -> None:
        self._desk = desk
        self._visitor = visitor

    async def draw(self) -> None:
        self._trouble, self._workers, self._queue, self._runners, self._log, self._storage = (
            Section() for _ in range(6)
        )
        await self._look()
        await self._look_at_storage()
        self._desk.heart.every(LOOK_SECONDS, self._look, at_once=False)
        self._desk.heart.every(STORAGE_SECONDS, self._look_at_storage, at_once=False)

    async def _look(self) -> None:
        """Each part is drawn again when it has changed; those that count messages do so all the time."""
        key, moment = (self._visitor.access.audience, "fleet"), int(time.monotonic() / LOOK_SECONDS)
        try:
            workers, runners, streams = await self._desk.shared.get(key, moment, self._ask)
        except RunspineError as error:
            said = str(error)
            self._trouble.show(said, lambda: problem("The fleet cannot be shown now", said))
            return
        self._trouble.show("", lambda: None)
        lag = await self._desk.shared.get("lag", moment, lambda: ingest_lag(self._desk.telemetry_metrics))
        queue = waiting(self._desk.following.book)
        # How long ago a silent worker was heard is told anew every ten seconds.
        silent = any(_unheard(worker) > 2 * HEARD_SECONDS for worker in workers)
        moment = int(time.time()) // HEARD_SECONDS if silent else 0
        self._workers.show(([_lasting(worker) for worker in workers], moment), lambda: _workers(workers))
        self._queue.show(sorted(queue.items()), lambda: _queue(queue))
        self._runners.show([str(runner) for runner in runners], lambda: _runners(runners))
        self._log.show(([str(stream) for stream in streams], lag), lambda: _streams(streams, lag))

    async def _ask(self) -> tuple[list[Worker], list[RunnerInfo], list[StreamInfo]]:
        ask = self._visitor.access.ask
        workers = (await ask("trainer", "ListWorkers", ListWorkersRequest())).workers
        runners = (await ask("trainer", "ListRunners", ListRunnersRequest())).runners
        streams = (await ask("trainer", "DescribeLog", DescribeLogRequest())).streams
        return list(workers), list(runners), list(streams)

    async def _look_at_storage(self) -> None:
        key = (self._visitor.access.audience, "storage")
        try:
            usage, rules = await self._desk.shared.get(key, 0, lambda: ask_storage(self._visitor.access))
        except RunspineError as error:
            said = str(error)
            self._storage.show(said, lambda: draw_storage_trouble(said))
            return
        self._storage.show((str(usage), str(rules)), lambda: draw_storage(usage, rules))


def _unheard(worker: Worker) -> float:
    """Seconds since it was heard."""
    return time.time() - worker.last_heard / 1e6


def _lasting(worker: Worker) -> str:
    """A worker without what changes with every beat."""
    found = Worker()
    found.CopyFrom(worker)
    found.last_heard = 0
    return str(found)


def waiting(book: RunBook) -> Counter[tuple[str, int]]:
    """Runs that wait, by pool and priority."""
    return Counter(
        (entry.run.spec.pool or "default", entry.run.priority)
        for entry in book.entries()
        if entry.run.phase == QUEUED
    )


def _workers(workers: list[Worker]) -> None:
    ui.label("Workers").classes("rs-section")
    if not workers:
        empty("No worker has ever been here", "Start one: python -m services.worker, or runspine up.")
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
        # The card is not drawn again for every beat, so it does not count seconds.
        heard = _unheard(worker)
        ago = "just now" if heard <= 2 * HEARD_SECONDS else f"{span(heard)} ago"
        ui.label(f"{worker.host}, version {worker.version}, heard {ago}").classes("rs-quiet")
        if worker.reason:
            ui.label(worker.reason).classes("rs-bad")
        for run_id in worker.running if worker.online else ():
            ui.link(run_id, f"/run/{run_id}").classes("rs-mono")


def _queue(queue: Counter[tuple[str, int]]) -> None:
    ui.label("Queue").classes("rs-section")
    if not queue:
        ui.label("No run waits.").classes("rs-quiet")
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
    ui.label("The log").classes("rs-section")
    if lag is not None:
        ui.label(f"Telemetry that is not in the archive yet: {lag:,} messages").classes("rs-quiet")
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
