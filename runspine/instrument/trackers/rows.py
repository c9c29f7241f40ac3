"""Steps of wandb and trackio: calls of `log` fill rows, and a row has one step. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Emit = Callable[[dict[str, Any], int], None]


class HistoryRows:
    """As wandb does: without a step, each call is a row of its own; with one, a row is complete when a later
    step begins. Values for an earlier step are ignored."""

    def __init__(self, emit: Emit, start: int = 0) -> None:
        self._emit = emit
        self.step = start
        self._row: dict[str, Any] = {}
        self.ignored = 0

    def log(self, values: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        if step is not None:
            if step < self.step:
                self.ignored += 1
                return
            if step > self.step:
                self.flush()
                self.step = step
        self._row.update(values)
        if commit or (commit is None and step is None):
            self.flush()
            self.step += 1

    def flush(self) -> None:
        """Emit the open row."""
        row, self._row = self._row, {}
        if row:
            self._emit(row, self.step)


class StepMetrics:
    """Which logged value is the step of which metric (`define_metric`)."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._known: dict[str, int] = {}

    def define(self, name: str, step_metric: str | None) -> None:
        if step_metric:
            self._of[name.replace(".", "/")] = step_metric.replace(".", "/")

    def by_step(self, numbers: Mapping[str, float], step: int) -> dict[int, dict[str, float]]:
        """The numbers of a row by the step each belongs to."""
        for name in set(self._of.values()) & set(numbers):
            value = numbers[name]
            if value == value and abs(value) != float("inf"):
                self._known[name] = int(value)
        found: dict[int, dict[str, float]] = {}
        for name, value in numbers.items():
            source = self._source(name)
            at = self._known.get(source, step) if source and source != name else step
            found.setdefault(at, {})[name] = value
        return found

    def _source(self, name: str) -> str:
        if name in self._of:
            return self._of[name]
        fitting = [key for key in self._of if key.endswith("*") and name.startswith(key[:-1])]
        return self._of[max(fitting, key=len)] if fitting else ""
