"""The columns of runs: what a list can show, sort and filter by. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runspine.domain.defaults import DEFAULT_POOL, DEFAULT_SEED
from runspine.services.dashboard.core.run_row import finite_or_none
from runspine.services.dashboard.core.run_table import RunTableEntry
from runspine.spec.plain import enum_word, json_text, plain_value
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.spec_pb2 import Mode

Cell = str | float | int | bool | None
Read = Callable[[RunTableEntry], Cell]
TEXT, NUMBER, TIME, DURATION = "text", "number", "time", "duration"
PARAMS, LABELS = "params.", "labels."


@dataclass(frozen=True, slots=True)
class RunColumn:
    name: str
    label: str
    kind: str
    read: Read


def column(name: str) -> RunColumn | None:
    """A column by name: a fixed one, `params.NAME` or `labels.NAME`."""
    if name in FIXED:
        return FIXED[name]
    if name.startswith(PARAMS) and len(name) > len(PARAMS):
        return RunColumn(name, name.removeprefix(PARAMS), TEXT, _param(name.removeprefix(PARAMS)))
    if name.startswith(LABELS) and len(name) > len(LABELS):
        return RunColumn(name, name.removeprefix(LABELS), TEXT, _label(name.removeprefix(LABELS)))
    return None


def _param(name: str) -> Read:
    def read(entry: RunTableEntry) -> Cell:
        params = entry.run.spec.params
        # Reading a message map at a missing key would add it.
        return as_cell(plain_value(params[name])) if name in params else None

    return read


def _label(name: str) -> Read:
    return lambda entry: entry.run.labels.get(name)


def as_cell(value: Any) -> Cell:
    """A plain value as a cell: lists and maps become JSON."""
    if isinstance(value, float):
        return finite_or_none(value)
    return value if isinstance(value, str | int | bool | None) else json_text(value)


def _phase(entry: RunTableEntry) -> str:
    return enum_word(Phase.DESCRIPTOR, entry.run.phase)


def _mode(entry: RunTableEntry) -> str:
    return enum_word(Mode.DESCRIPTOR, entry.run.spec.mode) if entry.run.spec.mode else "train"


def _seed(entry: RunTableEntry) -> int:
    spec = entry.run.spec
    return spec.seed if spec.HasField("seed") else DEFAULT_SEED


def _step(entry: RunTableEntry) -> int:
    return entry.progress.step or entry.run.counts.steps


def _total(entry: RunTableEntry) -> int | None:
    return entry.run.spec.total_steps or entry.progress.total_steps or None


def _done(entry: RunTableEntry) -> float | None:
    total = _total(entry)
    return min(1.0, _step(entry) / total) if total else None


def _return(entry: RunTableEntry) -> float | None:
    progress = entry.progress
    return finite_or_none(progress.mean_return) if progress.HasField("mean_return") else None


def _evaluation(entry: RunTableEntry) -> float | None:
    summary = entry.progress.evaluation
    return finite_or_none(summary.mean) if summary.episodes else None


def _duration(entry: RunTableEntry) -> float | None:
    run = entry.run
    until = run.ended_at or run.last_heard
    return max(0.0, (until - run.started_at) / 1e6) if run.started_at and until else None


def _millis(micros: int) -> int | None:
    return micros // 1000 or None


def _fixed() -> Mapping[str, RunColumn]:
    columns = [
        RunColumn("name", "Name", TEXT, lambda e: e.run.name),
        RunColumn("id", "Id", TEXT, lambda e: e.run.id),
        RunColumn("state", "State", TEXT, _phase),
        RunColumn("reason", "Reason", TEXT, lambda e: e.run.reason or None),
        RunColumn("env", "Environment", TEXT, lambda e: e.run.spec.env or None),
        RunColumn("algo", "Algorithm", TEXT, lambda e: e.run.spec.algo or None),
        RunColumn("runner", "Runner", TEXT, lambda e: e.run.spec.runner),
        RunColumn("mode", "Mode", TEXT, _mode),
        RunColumn("project", "Project", TEXT, lambda e: e.run.spec.project or None),
        RunColumn("owner", "Owner", TEXT, lambda e: e.run.submitted_by or None),
        RunColumn("pool", "Pool", TEXT, lambda e: e.run.spec.pool or DEFAULT_POOL),
        RunColumn("worker", "Worker", TEXT, lambda e: e.run.worker_id or None),
        RunColumn("seed", "Seed", NUMBER, _seed),
        RunColumn("return", "Return", NUMBER, _return),
        RunColumn("evaluation", "Evaluation", NUMBER, _evaluation),
        RunColumn("step", "Step", NUMBER, _step),
        RunColumn("total", "Steps planned", NUMBER, _total),
        RunColumn("done", "Done", NUMBER, _done),
        RunColumn("episodes", "Episodes", NUMBER, lambda e: e.progress.episodes or e.run.counts.episodes),
        RunColumn("sps", "Steps/s", NUMBER, lambda e: finite_or_none(e.progress.steps_per_second) or None),
        RunColumn("attempt", "Attempt", NUMBER, lambda e: e.run.attempt),
        RunColumn("failures", "Failures", NUMBER, lambda e: e.run.failures),
        RunColumn("priority", "Priority", NUMBER, lambda e: e.run.priority),
        RunColumn("duration", "Duration", DURATION, _duration),
        RunColumn("submitted", "Submitted", TIME, lambda e: _millis(e.run.submitted_at)),
        RunColumn("started", "Started", TIME, lambda e: _millis(e.run.started_at)),
        RunColumn("ended", "Ended", TIME, lambda e: _millis(e.run.ended_at)),
    ]  # fmt: skip
    return {each.name: each for each in columns}


FIXED = _fixed()
# Other names of columns in filters.
ALIASES = {
    "phase": "state", "status": "state", "algorithm": "algo", "environment": "env", "user": "owner",
    "steps": "step", "eval": "evaluation", "priority": "priority", "time": "duration",
}  # fmt: skip
# Short names of parameters that everybody writes.
PARAM_ALIASES = {"lr": "learning_rate", "bs": "batch_size", "hidden": "hidden_size"}
