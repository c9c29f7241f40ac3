"""The list of runs: pages of a view, columns, groups, ids, sparklines."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from runspine.errors import InvalidError
from runspine.services.dashboard.core.run_table import MAX_SPARK_POINTS, RunTable
from runspine.services.dashboard.core.runs.columns import FIXED, LABELS, PARAMS, RunColumn, column
from runspine.services.dashboard.core.runs.groups import Grouping
from runspine.services.dashboard.core.runs.view import DEFAULT_SORT
from runspine.services.dashboard.edges.api import shapes
from runspine.services.dashboard.edges.api.run_views import SharedViews, sliced
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.metric_queries import spark_points
from runspine.services.dashboard.edges.responses import json_response
from runspine.services.dashboard.edges.shared_query import SharedQuery

MAX_ROWS, MAX_COLUMNS, MAX_IDS, MAX_SPARKS = 200, 64, 100_000, 64
MAX_GROUPS = 200
DEFAULT_COLUMNS = "name,state,env,algo,seed,return,done,duration,submitted"
Columns = Annotated[str, Query(description="names of columns, separated by commas")]
Filter = Annotated[str, Query(description="terms such as lr<1e-3, state:failed or words; all must hold")]


class RunsApi:
    def __init__(
        self, backend: Backend, table: RunTable, views: SharedViews, shared: SharedQuery, epoch: str
    ) -> None:
        self._backend, self._table, self._shared, self._epoch = backend, table, shared, epoch
        self._views = views

    def add_to(self, app: FastAPI) -> None:
        get: Any = app.get
        get("/runs", response_model=shapes.RunsPage)(self.page)
        get("/runs/columns", response_model=list[shapes.ColumnShape])(self.columns)
        get("/runs/groups", response_model=shapes.GroupsShape)(self.groups)
        get("/runs/ids", response_model=shapes.IdsShape)(self.ids)
        get("/runs/sparks", response_model=list[shapes.SparkShape])(self.sparks)

    async def page(
        self,
        q: Filter = "",
        sort: Annotated[str, Query(description="a column; with - in front descending")] = DEFAULT_SORT,
        first: Annotated[int, Query(ge=0)] = 0,
        count: Annotated[int, Query(ge=0, le=MAX_ROWS)] = 50,
        columns: Columns = DEFAULT_COLUMNS,
        since: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        """A part of the runs that a filter accepts, in an order."""
        wanted = chosen_columns(columns)
        view = await self._views.get(q, sort)
        ids = view.ids(first, count)
        entries = (self._table.get(run_id) for run_id in ids)
        rows = [
            shapes.ListedRun(entry.run.id, entry.version, [each.read(entry) for each in wanted])
            for entry in entries
            if entry is not None and entry.version > since
        ]
        names = [each.name for each in wanted]
        return json_response(
            shapes.RunsPage(view.version, self._epoch, len(view), len(self._table), names, ids, rows)
        )

    async def columns(self) -> Response:
        """Every column that runs have."""
        found = [shapes.ColumnShape(one.name, one.label, one.kind, "run") for one in FIXED.values()]
        for group, names in ((PARAMS, self._table.params), (LABELS, self._table.labels)):
            found += [shapes.ColumnShape(group + name, name, "text", group[:-1]) for name in sorted(names)]
        return json_response(found)

    async def groups(self, by: str, q: Filter = "", best: str = "return") -> Response:
        """The accepted runs grouped by the values of a column, the largest group first."""
        key, value = chosen_columns(by)[0], chosen_columns(best)[0]
        grouping = Grouping(key, value)
        await sliced(await self._views.entries(await self._views.get(q, DEFAULT_SORT)), grouping.take)
        groups = [
            shapes.GroupShape(each.value, each.runs, each.active, each.failed, each.best, each.mean)
            for each in grouping.largest(MAX_GROUPS)
        ]
        return json_response(shapes.GroupsShape(by, groups, max(0, len(grouping) - MAX_GROUPS)))

    async def ids(self, q: Filter = "", sort: str = DEFAULT_SORT) -> Response:
        """Ids of all accepted runs, for an action on them."""
        view = await self._views.get(q, sort)
        return json_response(shapes.IdsShape(len(view), view.ids(0, MAX_IDS)))

    async def sparks(self, request: Request, run: Annotated[list[str], Query()]) -> Response:
        """The return by step of each run, a few points each."""
        if len(run) > MAX_SPARKS:
            raise InvalidError(f"run: at most {MAX_SPARKS} at once")
        access = self._backend.access_of(request.scope)
        found = []
        for run_id in run:
            entry = self._table.get(run_id)
            values = await self._shared.get(
                (access.audience, "spark", run_id),
                entry.version if entry else 0,
                lambda run_id=run_id: spark_points(access, run_id, MAX_SPARK_POINTS),  # type: ignore[misc]
            )
            found.append(shapes.SparkShape(run_id, values))
        return json_response(found)


def chosen_columns(names: str) -> list[RunColumn]:
    """Columns by their names. Raises InvalidError."""
    split = [name for name in names.split(",") if name]
    if not 0 < len(split) <= MAX_COLUMNS:
        raise InvalidError(f"columns: name between 1 and {MAX_COLUMNS}")
    found = [(name, column(name)) for name in split]
    if unknown := [name for name, one in found if one is None]:
        raise InvalidError(f"columns: {unknown[0]!r} is no column")
    return [one for _, one in found if one is not None]
