"""Prometheus metrics of the orchestrator. No run id is ever a label."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import islice

from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from runspine.domain.run.evolve import ENDED
from runspine.services.orchestrator.core.board import Board
from runspine.wire.v1.run_pb2 import Phase, Run

FACTS = Counter("runspine_run_facts_total", "Facts written to the RUNS stream", ["kind"])
LAUNCH_CHECKS = Counter("runspine_launch_checks_total", "Launch checks by result", ["result"])
QUEUE = Gauge("runspine_queue_runs", "Runs that wait for a worker", ["pool"])
HEARTBEAT_GAP = Gauge(
    "runspine_orchestrator_deaf_seconds",
    "Time since the last message on the BEATS stream, a heartbeat or the own echo",
)
SET_ASIDE = Gauge(
    "runspine_runs_set_aside", "Runs without decisions because their history is damaged or refuses commits"
)
OFFERS_REFUSED = Counter(
    "runspine_offers_refused_total", "Errors of the WORK stream that the same request again does not resolve"
)
OFFERS_UNREADABLE = Counter(
    "runspine_offers_unreadable_total", "Messages on the WORK stream that are not offers; they are withdrawn"
)
HEARTBEATS_UNREADABLE = Counter(
    "runspine_heartbeats_unreadable_total",
    "Messages on the BEATS stream that are not their worker's heartbeat",
)

# Pairs of env and algorithm that become labels, and characters of a label.
MAX_PAIRS, MAX_LABEL = 50, 64


def set_queue_depths(depths: dict[str, int], pools: Iterable[str]) -> None:
    for pool in {*pools, *depths}:
        QUEUE.labels(pool).set(depths.get(pool, 0))


class RunTally:
    """Runs by phase, env and algorithm. A run that has ended is counted once."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._ended: dict[tuple[str, str, str], int] = {}
        self._open_ids: list[str] = []
        self._read = 0
        self._pairs: set[tuple[str, str]] = set()
        # Two scrapes at once are two threads.
        self._lock = threading.Lock()

    def counts(self) -> dict[tuple[str, str, str], int]:
        with self._lock:
            return self._counts()

    def _counts(self) -> dict[tuple[str, str, str], int]:
        new = list(islice(self._board.runs, self._read, None))
        self._read += len(new)
        found: dict[tuple[str, str, str], int] = {}
        waiting = [*self._open_ids, *new]
        self._open_ids = []
        for run_id in waiting:
            run = self._board.runs[run_id]
            key = (Phase.Name(self._board.phase_of(run)).lower(), *self._pair(run))
            if run.phase in ENDED:
                self._ended[key] = self._ended.get(key, 0) + 1
            else:
                self._open_ids.append(run_id)
                found[key] = found.get(key, 0) + 1
        return {**self._ended, **found}

    def _pair(self, run: Run) -> tuple[str, str]:
        """Env and algorithm as labels. Names are free text, so pairs beyond MAX_PAIRS share the label
        other."""
        pair = (run.spec.env[:MAX_LABEL] or "none", run.spec.algo[:MAX_LABEL] or "none")
        if pair not in self._pairs:
            if len(self._pairs) >= MAX_PAIRS:
                return ("other", "other")
            self._pairs.add(pair)
        return pair


class BoardCollector(Collector):
    """Counts runs and workers of the board at each scrape."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._tally = RunTally(board)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        phases = GaugeMetricFamily("runspine_open_runs", "Runs that have not ended", labels=["phase"])
        counts = dict.fromkeys((p for p in Phase.keys() if p != "PHASE_UNSPECIFIED"), 0)  # noqa: SIM118
        for run_id in list(self._board.open):
            counts[Phase.Name(self._board.phase_of(self._board.runs[run_id]))] += 1
        for phase, count in counts.items():
            if phase not in ("COMPLETED", "FAILED", "CANCELLED"):
                phases.add_metric([phase.lower()], count)
        workers = GaugeMetricFamily("runspine_workers", "Workers", labels=["state"])
        online = self._board.fleet.online
        workers.add_metric(["online"], online)
        workers.add_metric(["offline"], len(self._board.workers) - online)
        runs = GaugeMetricFamily(
            "runspine_runs", "Runs, by env and algorithm", labels=["phase", "env", "algo"]
        )
        for labels, count in self._tally.counts().items():
            runs.add_metric(list(labels), count)
        return [phases, workers, runs]
