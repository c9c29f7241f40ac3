"""Runs, their parameters, labels and artifacts as tables for SQL. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from runspine.spec.plain import enum_word, json_text, plain_value
from runspine.wire.v1.run_pb2 import AttemptHistory, Phase, Run

TIME = pa.timestamp("us", tz="UTC")
RUNS, PARAMS, LABELS, ARTIFACTS = "runs", "params", "labels", "artifacts"
SCHEMAS = {
    RUNS: pa.schema(
        [
            *((name, pa.string()) for name in ("run_id", "name", "state", "reason", "env", "algo", "runner")),
            ("seed", pa.uint64()),
            *((name, pa.string()) for name in ("project", "owner", "notes")),
            *((name, TIME) for name in ("submitted", "started", "ended")),
            ("attempt", pa.uint32()),
            *((name, pa.uint64()) for name in ("steps", "episodes", "metrics", "log_lines")),
        ]
    ),
    # `value` is JSON; `number` is the value where it is a number.
    PARAMS: pa.schema(
        [("run_id", pa.string()), ("name", pa.string()), ("value", pa.string()), ("number", pa.float64())]
    ),
    LABELS: pa.schema([("run_id", pa.string()), ("name", pa.string()), ("value", pa.string())]),
    ARTIFACTS: pa.schema(
        [
            ("run_id", pa.string()),
            ("attempt", pa.uint32()),
            *((name, pa.string()) for name in ("kind", "name", "digest")),
            ("size", pa.uint64()),
            ("step", pa.uint64()),
        ]
    ),
}


def run_table(name: str, runs: Sequence[Run], attempts: Mapping[str, AttemptHistory]) -> pa.Table:
    """One of the tables that SCHEMAS names."""
    rows = [row for run in runs for row in _ROWS[name](run, attempts.get(run.id, AttemptHistory()))]
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name])


def _runs(run: Run, _: AttemptHistory) -> list[dict[str, Any]]:
    spec, counts = run.spec, run.counts
    return [
        {
            "run_id": run.id,
            "name": run.name,
            "state": enum_word(Phase.DESCRIPTOR, run.phase),
            "reason": run.reason,
            "env": spec.env,
            "algo": spec.algo,
            "runner": spec.runner,
            "seed": spec.seed if spec.HasField("seed") else None,
            "project": spec.project,
            "owner": run.submitted_by,
            "notes": spec.notes,
            "submitted": run.submitted_at or None,
            "started": run.started_at or None,
            "ended": run.ended_at or None,
            "attempt": run.attempt,
            "steps": counts.steps,
            "episodes": counts.episodes,
            "metrics": counts.metrics,
            "log_lines": counts.log_lines,
        }
    ]


def _params(run: Run, _: AttemptHistory) -> list[dict[str, Any]]:
    found = []
    for name in sorted(run.spec.params):
        value = plain_value(run.spec.params[name])
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        number = float(value) if is_number else None
        found.append({"run_id": run.id, "name": name, "value": json_text(value), "number": number})
    return found


def _labels(run: Run, _: AttemptHistory) -> list[dict[str, Any]]:
    return [{"run_id": run.id, "name": name, "value": run.labels[name]} for name in sorted(run.labels)]


def _artifacts(run: Run, history: AttemptHistory) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run.id,
            "attempt": produced.attempt,
            "kind": produced.kind,
            "name": produced.name,
            "digest": produced.digest,
            "size": produced.size,
            "step": produced.step,
        }
        for attempt in history.attempts
        for produced in attempt.artifacts
    ]


_ROWS: dict[str, Callable[[Run, AttemptHistory], list[dict[str, Any]]]] = {
    RUNS: _runs,
    PARAMS: _params,
    LABELS: _labels,
    ARTIFACTS: _artifacts,
}
