"""A card for each worker. What its machine reports changes in place, so that links on the card stay."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nicegui import ui

from runspine.services.dashboard.pages.elements.notices import empty
from runspine.services.dashboard.pages.elements.section import Section
from runspine.text.machines import disk_text, gpus_text, run_folders_text
from runspine.text.values import size, span
from runspine.wire.v1.run_pb2 import Worker

AGE_STEP_SECONDS = 10


class WorkerCards:
    def __init__(self) -> None:
        self._cards = Section()
        self._machines: dict[str, Section] = {}

    def show(self, workers: Sequence[Worker], moment: int) -> None:
        """Redraw all cards when one has changed, or when it is another moment."""
        content = [_without_reports(worker) for worker in workers]
        self._cards.show((content, moment), lambda: self._draw(workers))
        for worker in workers:
            texts = _machine_texts(worker)
            self._machines[worker.id].show(texts, lambda texts=texts: _quiet_labels(texts))  # type: ignore[misc]

    def _draw(self, workers: Sequence[Worker]) -> None:
        self._machines = {}
        ui.label("Workers").classes("rs-section")
        if not workers:
            empty("No workers yet", "Start one with runspine up or python -m runspine.services.worker.")
            return
        with ui.element("div").classes("rs-cards"):
            for worker in sorted(workers, key=lambda each: (not each.online, each.id)):
                self._machines[worker.id] = _draw_card(worker)


def silence_seconds(worker: Worker) -> float:
    """Seconds since the last heartbeat."""
    return time.time() - worker.last_heard / 1e6


def _draw_card(worker: Worker) -> Section:
    """Draw it; the part for what the machine reports."""
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
        gpus = worker.capacity.gpus
        has = [f"{worker.capacity.cpus:g} cores", size(worker.capacity.memory_mib << 20)]
        ui.label(" · ".join([*has, f"{len(gpus)} × {gpus[0]}" if gpus else "no GPU"])).classes("rs-quiet")
        machine = Section()
        # The card is not redrawn for every heartbeat, so it does not count seconds.
        silence = silence_seconds(worker)
        ago = "just now" if silence <= 2 * AGE_STEP_SECONDS else f"{span(silence)} ago"
        ui.label(f"{worker.host}, version {worker.version}, last heartbeat {ago}").classes("rs-quiet")
        if worker.reason:
            ui.label(worker.reason).classes("rs-bad")
        for run_id in worker.running if worker.online else ():
            ui.link(run_id, f"/run/{run_id}").classes("rs-mono")
    return machine


def _quiet_labels(texts: Sequence[str]) -> None:
    for text in texts:
        ui.label(text).classes("rs-quiet")


def _without_reports(worker: Worker) -> str:
    """The worker as text, without its heartbeat and what its machine reports."""
    found = Worker()
    found.CopyFrom(worker)
    found.last_heard = 0
    found.ClearField("machine")
    return str(found)


def _machine_texts(worker: Worker) -> list[str]:
    machine = worker.machine
    disk = " · ".join(filter(None, (disk_text(machine), run_folders_text(machine))))
    return [text for text in (disk, gpus_text(machine)) if text]
