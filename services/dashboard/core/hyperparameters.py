"""Specs of several runs side by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runspine.spec.plain import json_text, to_plain
from runspine.wire.v1.spec_pb2 import RunSpec

# Different in every run and without effect on it.
IGNORED_FIELDS = ("name", "notes")


def flatten_spec(spec: RunSpec) -> dict[str, str]:
    """Fields of a spec by their path, such as params.learning_rate."""
    found: dict[str, str] = {}
    for name, value in to_plain(spec, full=False).items():
        if name not in IGNORED_FIELDS:
            _walk(name, value, found)
    return found


def side_by_side(specs: Sequence[RunSpec], *, only_different: bool) -> list[tuple[str, list[str]]]:
    """Table rows of a path and its value in each run; – where it is not set."""
    every = [flatten_spec(spec) for spec in specs]
    paths = sorted({path for each in every for path in each})
    rows = [(path, [each.get(path, "–") for each in every]) for path in paths]
    return [row for row in rows if not only_different or len(set(row[1])) > 1]


def _walk(path: str, value: Any, found: dict[str, str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _walk(f"{path}.{name}", inner, found)
    else:
        found[path] = value if isinstance(value, str) else json_text(value)
