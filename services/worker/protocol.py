"""What a trainer's lines mean: protocol v1 (docs/protocol.md) and plain text. Pure: bytes in, events out.

Newline-delimited JSON, one object a line, known by its "type". Everything else is a log line. A
malformed or unknown object is a log line too, marked as such; nothing a trainer prints is an error.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from services.worker.protocol_events import Event, Line
from services.worker.protocol_fields import Wrong, is_column
from services.worker.protocol_lines import HANDLERS
from services.worker.redact import Redactor

_OBJECT = re.compile(rb'[ \t]*\{[ \t]*"')
_ROUNDED = float(1 << 63)
# Rare objects that may hold large integers anywhere, such as the state of a generator.
_EXACT = frozenset(("reset", "config", "env", "artifact"))


class ProtocolReader:
    """Reads line after line. `redact` takes secrets out of whatever text leaves here."""

    def __init__(self, redact: Redactor | None = None) -> None:
        self._redact = redact
        # Why the newest malformed object is none.
        self.why = ""

    def read(self, line: bytes, at: int, *, speaks: bool = True) -> Event:
        """One line, read at this time; `speaks` when its stream may carry the protocol."""
        if not speaks or not (line.startswith(b'{"') or _OBJECT.match(line)):
            return Line(self.text(line))
        try:
            said = _load(line)
            if (kind := said["type"]) not in HANDLERS:
                raise Wrong('its "type" is not one of the protocol')
            # Whoever uploads needs the path as it is, and redacts what is said of it.
            if self._redact and kind != "artifact" and self._redact.found_in(line):
                said = _without_secrets(said, self._redact)
            event = HANDLERS[kind](said, at, line)
        # RecursionError: brackets nested deeper than Python can follow.
        except (ValueError, KeyError, RecursionError) as error:
            self.why = _reason(error)
            return Line(self.text(line), malformed=True)
        return event

    def text(self, line: bytes) -> str:
        """The line for people: no secrets, and a mark for each byte that is not text."""
        text = line.decode("utf-8", "replace")
        return self._redact(text) if self._redact else text


def _reason(error: Exception) -> str:
    """In words that hold nothing of what the trainer wrote: that may be a secret."""
    match error:
        case KeyError():
            return f'"{error.args[0]}" is missing'
        case Wrong():
            return str(error)
        case RecursionError():
            return "it is nested too deeply"
    return "it is not JSON"


def _load(line: bytes) -> Any:
    """The line's object. orjson is fast, but knows neither NaN nor integers beyond 64 bits."""
    said: Any
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError:
        said = json.loads(line.decode())
    if not isinstance(said, dict):
        raise Wrong("not an object")
    kind = said["type"]
    if type(kind) is not str:
        raise Wrong("unknown")
    if kind in _EXACT or _rounded(said.get("action")) or _rounded(said.get("obs")):
        said = json.loads(line)
    return said


def _rounded(value: object) -> bool:
    """Whether it holds a float so large that the trainer may have written an integer."""
    if type(value) is float:
        return not -_ROUNDED < value < _ROUNDED
    if type(value) is list and value:
        try:
            return bool(max(value) >= _ROUNDED or min(value) <= -_ROUNDED)
        except TypeError:
            return any(map(_rounded, value))
    if type(value) is dict:
        return any(map(_rounded, value.values()))
    return False


def _without_secrets(said: dict[str, Any], redact: Redactor) -> dict[str, Any]:
    # Encoded columns hold numbers, and a short secret turns up in base64 by chance.
    columns = {field: value for field, value in said.items() if _is_encoded(said, field)}
    return {**_scrubbed(said, redact), **columns}


def _is_encoded(said: dict[str, Any], field: str) -> bool:
    if said["type"] not in ("steps", "reset"):
        return False
    value = said[field]
    return field in ("flags", "obs_hash") or is_column(value)


def _scrubbed(value: Any, redact: Redactor) -> Any:
    if type(value) is str:
        return redact(value)
    if type(value) is list:
        return [_scrubbed(each, redact) for each in value]
    if type(value) is dict:
        return {redact(field): _scrubbed(each, redact) for field, each in value.items()}
    return value
