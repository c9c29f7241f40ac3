"""Metrics in dicts of dicts, by names with slashes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SEPARATOR = "/"
Named = Iterator[tuple[str, Any]]


def flattened(values: Mapping[Any, Any], prefix: str = "", above: tuple[int, ...] = ()) -> Named:
    """Names and values: `{"loss": {"policy": 1}}` is `loss/policy`. A dict in itself stays a dict."""
    within = (*above, id(values))
    for name, value in values.items():
        full = f"{prefix}{name}"
        if isinstance(value, Mapping) and id(value) not in within:
            yield from flattened(value, full + SEPARATOR, within)
        else:
            yield full, value
