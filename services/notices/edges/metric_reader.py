"""Reads the series that rules name, of runs that have such rules: each point once in a process."""

from __future__ import annotations

import asyncio
import struct
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

from runspine.clock import now_micros
from runspine.domain.run.evolve import ENDED, UNDERWAY
from runspine.errors import RunspineError
from runspine.notice.rules import QUIET
from runspine.rpc.async_client import TELEMETRY, AsyncClient
from runspine.services.notices.core.metric_rules import MetricFold
from runspine.services.notices.core.projection import NoticeProjection
from runspine.services.notices.core.triggers import BoundRule
from runspine.services.notices.edges import metrics
from runspine.wire.v1.run_pb2 import RUNNING, Run
from runspine.wire.v1.telemetry_pb2 import PointBlock, ReadPointsRequest

log = structlog.get_logger()

MICROS = 1_000_000
# Runs that ended while no such service ran are read as well, if they ended in this time.
MISSED_SECONDS = 3600
# What a worker ships after the end of a run is waited for.
LATE_SECONDS = 30
MAX_READS = 4


@dataclass(slots=True)
class RunMetrics:
    """How far a run is read, and its rules."""

    after: int = 0
    folds: dict[str, MetricFold] = field(default_factory=dict)


class MetricReader:
    """The loop that reads metrics for rules."""

    def __init__(self, client: AsyncClient, projection: NoticeProjection, seconds: float) -> None:
        self._client = client
        self._projection = projection
        self._seconds = seconds
        self._state: dict[str, RunMetrics] = {}
        self._done: set[str] = set()
        self._room = asyncio.Semaphore(MAX_READS)

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            chosen = self._chosen(now_micros())
            await asyncio.gather(*(self._read(run, rules) for run, rules in chosen))
            await asyncio.sleep(self._seconds)

    def _chosen(self, now: int) -> list[tuple[Run, list[BoundRule]]]:
        since = now - MISSED_SECONDS * MICROS
        ended = [run for run in self._projection.ended.values() if run.ended_at >= since]
        self._done &= {run.id for run in ended}
        under_way = [run for run in self._projection.runs.values() if run.phase in UNDERWAY]
        runs = [*under_way, *(run for run in ended if run.id not in self._done)]
        found = [(run, rules) for run in runs if (rules := list(self._projection.metric_rules(run)))]
        chosen = {run.id for run, _ in found}
        self._state = {run_id: state for run_id, state in self._state.items() if run_id in chosen}
        return found

    async def _read(self, run: Run, rules: list[BoundRule]) -> None:
        began = now_micros()
        state = self._state.setdefault(run.id, RunMetrics())
        if {rule.digest for rule in rules} - state.folds.keys():
            state.after = 0
            state.folds = {rule.digest: MetricFold(rule.rule) for rule in rules}
        async with self._room:
            try:
                await self._points(run, rules, state)
            except RunspineError as error:
                metrics.READS.labels("failed").inc()
                # Within a series that was read in part, the next read begins again.
                del self._state[run.id]
                log.warning("metrics.later", run_id=run.id, error=str(error))
                return
        self._check_silence(run, rules, state)
        metrics.READS.labels("done").inc()
        if run.phase in ENDED and began > run.ended_at + LATE_SECONDS * MICROS:
            self._done.add(run.id)

    async def _points(self, run: Run, rules: list[BoundRule], state: RunMetrics) -> None:
        names = sorted({rule.rule.metric for rule in rules})
        timed = any(rule.rule.on == QUIET for rule in rules)
        request = ReadPointsRequest(run_id=run.id, names=names, after=state.after, with_times=timed)
        reached = state.after
        async with aclosing(self._client.stream(TELEMETRY, "ReadPoints", request)) as messages:
            async for message in messages:
                for block in message.blocks:
                    for rule in rules:
                        if rule.rule.metric == block.name:
                            self._feed(run, rule, state.folds[rule.digest], block)
                reached = max(reached, message.position)
                request.after = reached
                await asyncio.sleep(0)
        state.after = reached

    def _check_silence(self, run: Run, rules: list[BoundRule], state: RunMetrics) -> None:
        """Rules on a metric without points, of a run that trains."""
        if run.phase != RUNNING or not run.started_at:
            return
        now, since = now_micros(), run.started_at
        for rule in rules:
            if detail := state.folds[rule.digest].quiet(now, since):
                self._projection.draft_metric(run, rule, now, detail)

    def _feed(self, run: Run, rule: BoundRule, fold: MetricFold, block: PointBlock) -> None:
        count = len(block.values) // 8
        if len(block.at) == 8 * count and count:
            fold.newest = max(fold.newest, *struct.unpack(f"<{count}q", block.at))
        values = struct.unpack(f"<{count}d", block.values)
        steps = struct.unpack(f"<{count}Q", block.steps) if len(block.steps) == 8 * count else (0,) * count
        for step, value in zip(steps, values, strict=True):
            if detail := fold.feed(step, value):
                self._projection.draft_metric(run, rule, now_micros(), detail)
                return
