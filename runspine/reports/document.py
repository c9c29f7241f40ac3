"""The source of a report: Markdown whose fenced blocks `chart`, `runs` and `sql` are queries. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from runspine.errors import InvalidError, Violation
from runspine.spec.nearest import not_accepted

FENCE = "```"
QUERIES = ("chart", "runs", "sql")
# What chooses runs, in `chart` and `runs`, and before the query of `sql` in no case.
FILTERS = ("state", "env", "algo", "runner", "project", "owner", "name", "labels", "params")
FIELDS = {
    "chart": ("metric", "title", "runs", "ids", "by", "samples", "log"),
    "runs": ("title", "runs", "ids", "metrics", "params"),
}
MAX_BLOCKS = 200


@dataclass(frozen=True, slots=True)
class Prose:
    """Lines of Markdown."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A fenced block that is answered from the stack."""

    kind: str
    line: int
    text: str
    fields: dict[str, Any] = field(default_factory=dict)


def parse(source: str) -> list[Prose | Query]:
    """The blocks of a report in their order. Raises InvalidError, which names the line."""
    found: list[Prose | Query] = []
    text: list[str] = []
    lines = iter(enumerate(source.splitlines(), 1))
    for number, line in lines:
        kind = line.removeprefix(FENCE).strip() if line.startswith(FENCE) else ""
        if kind not in QUERIES:
            text.append(line)
            if line.startswith(FENCE):
                text += _inside(lines, number, closing=True)
            continue
        if text:
            found.append(Prose(tuple(text)))
            text = []
        found.append(_query(kind, number, "\n".join(_inside(lines, number, closing=False))))
    if text:
        found.append(Prose(tuple(text)))
    if len(found) > MAX_BLOCKS:
        raise _invalid(1, f"{len(found)} blocks, more than {MAX_BLOCKS}: make several reports")
    return found


def _inside(lines: Any, begun: int, *, closing: bool) -> list[str]:
    found: list[str] = []
    for _, line in lines:
        if line.startswith(FENCE):
            return [*found, line] if closing else found
        found.append(line)
    raise _invalid(begun, f"the block has no end: close it with {FENCE}")


def _query(kind: str, line: int, text: str) -> Query:
    if kind == "sql":
        return Query(kind, line, text.strip())
    try:
        fields = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise _invalid(line, f"not YAML: {error}") from error
    if not isinstance(fields, dict):
        raise _invalid(line, "expected fields such as `metric: episode/return`")
    for name in fields:
        if name not in FIELDS[kind]:
            raise _invalid(line, not_accepted(str(name), FIELDS[kind]))
    chosen = fields.get("runs") or {}
    if not isinstance(chosen, dict):
        raise _invalid(line, "runs: expected filters such as {env: CartPole-v1}")
    for name in chosen:
        if name not in FILTERS:
            raise _invalid(line, f"runs: {not_accepted(str(name), FILTERS)}")
    if kind == "chart" and not isinstance(fields.get("metric"), str):
        raise _invalid(line, "metric: expected the name of a metric")
    return Query(kind, line, text, fields)


def _invalid(line: int, what: str) -> InvalidError:
    return InvalidError("the report is not accepted", [Violation(f"line {line}", what)])
