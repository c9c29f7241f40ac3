"""Conditions on fields of runs, such as `params.lr<1e-3`, and values of fields for columns. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from runspine.errors import InvalidError
from runspine.spec.plain import enum_word, plain_value
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.trainer_pb2 import RunSummary

_CONDITION = re.compile(r"\s*([\w./\"-]+?)\s*(<=|>=|!=|==|=|<|>|~)\s*(.*?)\s*\Z", re.DOTALL)
PLAIN: dict[str, Callable[[RunSummary], Any]] = {
    "id": lambda summary: summary.run.id,
    "name": lambda summary: summary.run.name,
    "state": lambda summary: enum_word(Phase.DESCRIPTOR, summary.run.phase),
    "env": lambda summary: summary.run.spec.env,
    "algo": lambda summary: summary.run.spec.algo,
    "runner": lambda summary: summary.run.spec.runner,
    "project": lambda summary: summary.run.spec.project,
    "seed": lambda summary: summary.run.spec.seed if summary.run.spec.HasField("seed") else None,
    "total_steps": lambda summary: summary.run.spec.total_steps or None,
    "attempt": lambda summary: summary.run.attempt,
    "worker": lambda summary: summary.run.worker_id,
    "owner": lambda summary: summary.run.submitted_by,
    "step": lambda summary: summary.progress.step,
    "episodes": lambda summary: summary.progress.episodes,
    "return": lambda summary: (
        summary.progress.mean_return if summary.progress.HasField("mean_return") else None
    ),
}
MAPS = ("params", "config", "labels", "env_kwargs")
Config = Callable[[], Mapping[str, Any]]


class Condition(NamedTuple):
    """One comparison of a field with a value."""

    field: str
    operator: str
    value: str

    def holds(self, actual: Any) -> bool:
        """Whether it holds for this value of the field; never for a field that a run does not have."""
        if actual is None:
            return False
        if self.operator == "~":
            return self.value.lower() in shown(actual).lower()
        left, right = _number(actual), _number(self.value)
        if left is None or right is None:
            if self.operator not in ("=", "==", "!="):
                return False
            return (shown(actual) == self.value) == (self.operator != "!=")
        return {
            "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
            "=": left == right, "==": left == right, "!=": left != right,
        }[self.operator]  # fmt: skip


def parse_condition(text: str) -> Condition:
    """Read `FIELD OPERATOR VALUE`. Raises InvalidError."""
    match = _CONDITION.match(text)
    if not match or not match[3]:
        raise InvalidError(
            f"--where {text}: expected a field, one of < <= > >= = != ~, and a value: 'params.lr<1e-3'"
        )
    return Condition(checked_field(match[1], "--where"), match[2], match[3])


def checked_field(path: str, option: str) -> str:
    """The field, when runs can have it. Raises InvalidError."""
    top, dot, key = path.partition(".")
    if path in PLAIN or (top in MAPS and dot and key):
        return path
    known = ", ".join((*sorted(PLAIN), *(f"{name}.NAME" for name in MAPS)))
    raise InvalidError(f"{option} {path}: no such field of a run: one of {known}")


def field_value(summary: RunSummary, path: str, config: Config) -> Any:
    """Value of a field of a run; None when it has none.

    `params.NAME` is the run's parameter, else what its trainer reported under that name; `config.NAME` is
    what the trainer reported. `config` is only called where it is needed.
    """
    if path in PLAIN:
        return PLAIN[path](summary)
    top, _, key = path.partition(".")
    spec = summary.run.spec
    if top == "labels":
        return summary.run.labels.get(key)
    if top == "env_kwargs":
        return plain_value(spec.env_kwargs[key]) if key in spec.env_kwargs else None
    if top == "params" and key in spec.params:
        return plain_value(spec.params[key])
    return reported(config(), key)


def _mean_return(summary: RunSummary) -> float | None:
    return summary.progress.mean_return if summary.progress.HasField("mean_return") else None


def reported(config: Mapping[str, Any], key: str) -> Any:
    """A value of a trainer's configuration: among its arguments, else at the top; dots lead inside."""
    arguments = config.get("args")
    for place in (arguments if isinstance(arguments, Mapping) else {}, config):
        if key in place:
            return place[key]
        value: Any = place
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def shown(value: Any) -> str:
    """A value as text for a cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
