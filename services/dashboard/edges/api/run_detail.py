"""One run: its head and spec, attempts, series and curves."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from runspine.domain.run import ENDED
from runspine.services.dashboard.core.hyperparameters import flatten_spec
from runspine.services.dashboard.core.run_row import finite_or_none
from runspine.services.dashboard.core.run_table import RunTable, RunTableEntry
from runspine.services.dashboard.core.runs.columns import FIXED
from runspine.services.dashboard.edges.api import shapes
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.curve_cache import CurveCache, CurveQuery
from runspine.services.dashboard.edges.responses import json_bytes_response, json_response
from runspine.services.dashboard.edges.shared_query import SharedQuery
from runspine.spec.plain import to_plain
from runspine.spec.run_file import spec_yaml
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Attempt, Run
from runspine.wire.v1.telemetry_pb2 import ListSeriesRequest
from runspine.wire.v1.trainer_pb2 import GetRequest

MAX_POINTS, MAX_NAMES = 4000, 64


class RunApi:
    def __init__(self, backend: Backend, table: RunTable, curves: CurveCache, shared: SharedQuery) -> None:
        self._backend, self._table, self._curves, self._shared = backend, table, curves, shared

    def add_to(self, app: FastAPI) -> None:
        get: Any = app.get
        get("/runs/{run_id}", response_model=shapes.RunDetail)(self.detail)
        get("/runs/{run_id}/head", response_model=shapes.RunShape)(self.head)
        get("/runs/{run_id}/series", response_model=list[shapes.SeriesShape])(self.series)
        get("/runs/{run_id}/curves", response_model=list[shapes.CurveShape])(self.curves)

    async def detail(self, request: Request, run_id: str) -> Response:
        """A run by its id, a unique beginning of it, or its name; with its spec and attempts."""
        access = self._backend.access_of(request.scope)
        answer = await access.call("trainer", "Get", GetRequest(run_id=run_id))
        entry = self._table.get(answer.run.id)
        version = entry.version if entry else 0
        return json_response(
            shapes.RunDetail(
                run_shape(answer.run, answer.progress, version),
                spec_yaml(answer.run.spec),
                [[path, value] for path, value in sorted(flatten_spec(answer.run.spec).items())],
                [_attempt(each) for each in answer.attempts],
            )
        )

    async def head(self, request: Request, run_id: str) -> Response:
        """What changes while it runs, from the shared table: cheap."""
        entry = self._table.get(run_id)
        if entry is None:
            access = self._backend.access_of(request.scope)
            answer = await access.call("trainer", "Get", GetRequest(run_id=run_id))
            return json_response(run_shape(answer.run, answer.progress, 0))
        return json_response(run_shape(entry.run, entry.progress, entry.version))

    async def series(self, request: Request, run_id: str) -> Response:
        """Names of the series with counts and ranges."""
        access = self._backend.access_of(request.scope)
        entry = self._table.get(run_id)

        async def ask() -> list[shapes.SeriesShape]:
            answer = await access.call("telemetry", "ListSeries", ListSeriesRequest(run_id=run_id))
            return [
                shapes.SeriesShape(
                    one.name, one.points, one.first_step, one.last_step,
                    finite_or_none(one.minimum), finite_or_none(one.maximum), finite_or_none(one.last),
                )
                for one in answer.series
            ]  # fmt: skip

        version = entry.version if entry else 0
        return json_response(await self._shared.get((access.audience, "series.v1", run_id), version, ask))

    async def curves(
        self,
        request: Request,
        run_id: str,
        name: Annotated[list[str], Query(max_length=MAX_NAMES)],
        have: Annotated[list[int], Query()] = [],  # noqa: B006 - FastAPI copies it
        axis: str = "step",
        first: float | None = None,
        last: float | None = None,
        points: int = 1000,
    ) -> Response:
        """Curves by name; those whose state is the number in `have` are left out."""
        query = CurveQuery(run_id, axis, max(2, min(points, MAX_POINTS)), first, last)
        wanted = dict(zip(name, [*have, *[0] * len(name)], strict=False))
        access = self._backend.access_of(request.scope)
        return json_bytes_response(await self._curves.curves(access, query, wanted))


def run_shape(run: Run, progress: Progress, version: int) -> shapes.RunShape:
    entry = RunTableEntry(run, progress)

    def read(name: str) -> Any:
        return FIXED[name].read(entry)

    return shapes.RunShape(
        id=run.id, version=version, name=run.name, state=read("state"), ended=run.phase in ENDED,
        reason=run.reason, env=run.spec.env, algo=run.spec.algo, runner=run.spec.runner, mode=read("mode"),
        project=run.spec.project, owner=run.submitted_by, worker=run.worker_id, seed=read("seed"),
        attempt=run.attempt, priority=run.priority, notes=run.spec.notes, parent=run.parent,
        labels=dict(sorted(run.labels.items())), submitted_at=run.submitted_at // 1000,
        started_at=run.started_at // 1000, ended_at=run.ended_at // 1000,
        last_heartbeat_at=run.last_heard // 1000,
        step=read("step"), total=read("total") or 0, episodes=read("episodes"), mean_return=read("return"),
        agent_returns=dict(progress.agent_returns), evaluation=read("evaluation"),
        steps_per_second=read("sps"), held_back=progress.held_back,
    )  # fmt: skip


def _attempt(attempt: Attempt) -> shapes.AttemptShape:
    exited = attempt.exited
    outcome = exited.reason if attempt.HasField("exited") else ""
    if attempt.HasField("exited") and not outcome:
        outcome = f"exit code {exited.exit_code}"
    provenance = to_plain(attempt.provenance, full=False) if attempt.HasField("provenance") else None
    return shapes.AttemptShape(
        attempt.number, attempt.worker_id, attempt.host, list(attempt.command),
        attempt.started_at // 1000, attempt.ended_at // 1000, outcome, exited.stderr_tail,
        dict(attempt.versions), provenance,
    )  # fmt: skip
