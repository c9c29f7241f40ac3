"""What lists of runs are filtered by, without the runs themselves. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from runspine.domain.run.evolve import ENDED
from runspine.wire.v1.run_pb2 import QUARANTINED, Run
from runspine.wire.v1.trainer_pb2 import ListRequest

Labels = tuple[tuple[str, str], ...]
# Fields of a request that are equal to those of a run, or empty.
EQUAL = ("env", "algo", "runner", "project", "submitted_by")


class RunRow(NamedTuple):
    """The part of a run that filters look at."""

    phase: int
    env: str
    algo: str
    runner: str
    project: str
    submitted_by: str
    name: str
    submitted_at: int
    labels: Labels


class RunRows:
    """A row for each run, and how many rows have each value."""

    def __init__(self) -> None:
        self._rows: dict[str, RunRow] = {}
        self._counts: Counter[tuple[str, object]] = Counter()
        # Equal texts are kept once.
        self._shared: dict[str, str] = {}

    def update(self, run: Run) -> None:
        """A run is new or has changed."""
        before, row = self._rows.get(run.id), self._row(run)
        if row == before:
            return
        self._rows[run.id] = row
        for key in _counted(row):
            self._counts[key] += 1
        for key in _counted(before) if before is not None else ():
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def phase(self, run_id: str) -> int:
        return self._rows[run_id].phase

    def count(self, request: ListRequest) -> int | None:
        """How many runs match a request with at most one condition; None where they must be looked at."""
        conditions: list[tuple[str, object]] = [
            (name, value) for name in EQUAL if (value := getattr(request, name))
        ]
        conditions += [("label", (key, value)) for key, value in request.labels.items()]
        conditions += [("phase", phase) for phase in request.phases[:1]]
        others = request.name or request.submitted_after or request.submitted_before or request.params
        if others or len(conditions) > 1:
            return None
        if request.phases:
            return sum(self._counts[("phase", phase)] for phase in set(request.phases))
        return self._counts[conditions[0]] if conditions else len(self._rows)

    def matching(
        self, ids: Iterable[str], request: ListRequest, quarantined: Mapping[str, object]
    ) -> list[str]:
        """Those that match all conditions but the ones on parameters, in the same order."""
        rows, found = self._rows, list(ids)
        if request.phases:
            phases = frozenset(request.phases)
            found = [each for each in found if _phase(each, rows[each], quarantined) in phases]
        for index, name in enumerate(EQUAL, 1):
            if wanted := getattr(request, name):
                found = [each for each in found if rows[each][index] == wanted]
        if part := request.name.lower():
            found = [each for each in found if part in rows[each].name]
        if after := request.submitted_after:
            found = [each for each in found if rows[each].submitted_at >= after]
        if before := request.submitted_before:
            found = [each for each in found if rows[each].submitted_at < before]
        for label in request.labels.items():
            found = [each for each in found if label in rows[each].labels]
        return found

    def _row(self, run: Run) -> RunRow:
        spec = run.spec
        return RunRow(
            run.phase,
            self._text(spec.env),
            self._text(spec.algo),
            self._text(spec.runner),
            self._text(spec.project),
            self._text(run.submitted_by),
            run.name.lower(),
            run.submitted_at,
            tuple((self._text(key), self._text(value)) for key, value in sorted(run.labels.items())),
        )

    def _text(self, text: str) -> str:
        return self._shared.setdefault(text, text)


def _counted(row: RunRow) -> Iterator[tuple[str, object]]:
    yield "phase", row.phase
    for name in EQUAL:
        yield name, getattr(row, name)
    for label in row.labels:
        yield "label", label


def _phase(run_id: str, row: RunRow, quarantined: Mapping[str, object]) -> int:
    held = quarantined and run_id in quarantined and row.phase not in ENDED
    return QUARANTINED if held else row.phase
