"""Runs grouped by the values of a column. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runspine.domain.run import ACTIVE
from runspine.services.dashboard.core.run_table import RunTableEntry
from runspine.services.dashboard.core.runs.columns import RunColumn
from runspine.wire.v1.run_pb2 import FAILED


@dataclass(slots=True)
class ValueGroup:
    """The runs with one value."""

    value: str
    runs: int = 0
    active: int = 0
    failed: int = 0
    best: float | None = None
    total: float = 0.0
    valued: int = 0

    @property
    def mean(self) -> float | None:
        return self.total / self.valued if self.valued else None


class Grouping:
    """Groups by one column, with the best and the mean value of another."""

    def __init__(self, key: RunColumn, value: RunColumn) -> None:
        self._key, self._value = key, value
        self._groups: dict[str, ValueGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def take(self, entries: Iterable[RunTableEntry]) -> None:
        for entry in entries:
            found = self._key.read(entry)
            name = "" if found is None else str(found)
            group = self._groups.get(name)
            if group is None:
                group = self._groups[name] = ValueGroup(name)
            group.runs += 1
            group.active += entry.run.phase in ACTIVE
            group.failed += entry.run.phase == FAILED
            value = self._value.read(entry)
            if isinstance(value, int | float):
                group.best = value if group.best is None else max(group.best, value)
                group.total += value
                group.valued += 1

    def largest(self, count: int) -> list[ValueGroup]:
        return sorted(self._groups.values(), key=lambda group: (-group.runs, group.value))[:count]
