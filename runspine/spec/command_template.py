"""Placeholders in the command of a run, such as `--lr {params.lr}`. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from runspine.spec.plain import plain_value
from runspine.wire.v1.spec_pb2 import RunSpec

SIMPLE = ("seed", "env", "algo", "total_steps")
MAPS = ("params", "env_kwargs")
_PLACEHOLDER = re.compile(r"\{((?:params|env_kwargs)\.[^{}\s]+|seed|env|algo|total_steps)\}")


class NoValueError(ValueError):
    """A placeholder names a field that the run does not have."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{{{field}}} has no value: add {field} to the run, or remove the placeholder")
        self.field = field


def placeholders(spec: RunSpec) -> set[str]:
    """Fields that the command and the variables of a spec take."""
    texts = (*spec.command, *spec.variables.values())
    return {field for text in texts for field in _PLACEHOLDER.findall(text)}


def missing_values(spec: RunSpec) -> list[NoValueError]:
    """Placeholders of the spec without a value."""
    values = _values(spec)
    return [NoValueError(field) for field in sorted(placeholders(spec)) if field not in values]


def filled(texts: Iterable[str], spec: RunSpec) -> list[str]:
    """The texts with values for their placeholders. Raises NoValueError."""
    values = _values(spec)

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise NoValueError(match[1])
        return _text(values[match[1]])

    return [_PLACEHOLDER.sub(value, text) for text in texts]


def _values(spec: RunSpec) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(spec, name) for name in SIMPLE if spec_has(spec, name)}
    for name in MAPS:
        entries: Mapping[str, Any] = getattr(spec, name)
        found |= {f"{name}.{key}": plain_value(value) for key, value in entries.items()}
    return found


def spec_has(spec: RunSpec, name: str) -> bool:
    return spec.HasField("seed") if name == "seed" else bool(getattr(spec, name))


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | dict) else str(value)
