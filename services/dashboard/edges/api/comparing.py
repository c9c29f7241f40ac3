"""Runs compared: curves of groups with the command line's statistics, and what differs in their specs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from runspine.compare.comparison import ComparedGroup
from runspine.services.dashboard.core.comparison import as_curves
from runspine.services.dashboard.core.hyperparameters import side_by_side
from runspine.services.dashboard.core.run_row import finite_or_none
from runspine.services.dashboard.edges.api import shapes
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.comparisons import Comparisons
from runspine.services.dashboard.edges.metric_queries import get_runs
from runspine.services.dashboard.edges.responses import json_response

RunIds = Annotated[list[str], Query()]
SHAPE_FIELDS = ("name", "points", "exact", "x", "y", "low", "high")


class CompareApi:
    def __init__(self, backend: Backend, comparisons: Comparisons) -> None:
        self._backend, self._comparisons = backend, comparisons

    def add_to(self, app: FastAPI) -> None:
        get: Any = app.get
        get("/compare", response_model=shapes.ComparisonShape)(self.compare)
        get("/compare/specs", response_model=shapes.DifferenceShape)(self.specs)

    async def compare(
        self,
        request: Request,
        run: RunIds,
        metric: str,
        axis: str = "step",
        stat: str = "iqm",
        by: Annotated[list[str], Query()] = [],  # noqa: B006 - FastAPI copies it
        each: bool = False,
    ) -> Response:
        """A metric of several runs; seeds of one configuration are one group, unless `each` is set."""
        access = self._backend.access_of(request.scope)
        found = await self._comparisons.get(access, run, metric, axis, stat, tuple(by), each)
        groups = sorted((_group(group) for group in found.groups), key=_by_final)
        curves = [
            shapes.ComparedCurve(**{name: one[name] for name in SHAPE_FIELDS}) for one in as_curves(found)
        ]
        threshold = finite_or_none(found.threshold)
        return json_response(shapes.ComparisonShape(axis, stat, threshold, found.advice, groups, curves))

    async def specs(self, request: Request, run: RunIds, all: bool = False) -> Response:
        """Values of the specs that differ, or all."""
        runs = await get_runs(self._backend.access_of(request.scope), run)
        rows = side_by_side([one.spec for one in runs], only_different=not all)
        return json_response(
            shapes.DifferenceShape(
                [one.id for one in runs],
                [one.name for one in runs],
                [[path, *values] for path, values in rows],
            )
        )


def _group(group: ComparedGroup) -> shapes.ComparedGroupShape:
    final = group.final_iqm
    return shapes.ComparedGroupShape(
        label=group.label, runs=len(group.seeds), final=_known(final.value), low=_known(final.low),
        high=_known(final.high), mean=_known(group.final_mean), std=_known(group.final_std),
        area=_known(group.area.value), reached=_known(group.reached), reached_count=group.reached_count,
    )  # fmt: skip


def _known(value: float) -> float | None:
    return finite_or_none(float(value))


def _by_final(group: shapes.ComparedGroupShape) -> float:
    return -group.final if group.final is not None else float("inf")
