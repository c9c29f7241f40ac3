"""Reads a trainer's lines: protocol v1 (docs/protocol.md) and plain text. Pure: bytes in, events out.

Newline-delimited JSON, one object a line, identified by its "type". Everything else is a log line. A
malformed or unknown object is a log line too, marked as such; no output of a trainer is an error.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from runspine.services.worker.protocol.events import Event, LogLine
from runspine.services.worker.protocol.fields import ProtocolError, is_column
from runspine.services.worker.protocol.frame_splitter import Frame
from runspine.services.worker.protocol.grid import GridEvent, read_grid, read_header
from runspine.services.worker.protocol.parsers import HANDLERS
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.protocol.step_frame import read_steps
from runspine.wire.v1.telemetry_pb2 import StepBlock

_OBJECT = re.compile(rb'[ \t]*\{[ \t]*"')
_ROUNDED = float(1 << 63)
# Rare objects that may hold large integers anywhere, such as the state of a generator.
_EXACT = frozenset(("reset", "config", "env", "artifact"))

_PATHS = frozenset(("artifact", "artifacts"))


class ProtocolReader:
    """Turns lines into events. `redact` removes secrets from every text that it returns."""

    def __init__(self, redact: Redactor | None = None) -> None:
        self._redact = redact
        # Why the latest malformed object is malformed.
        self.why = ""

    def read(self, line: bytes, at: int, *, protocol: bool = True) -> Event:
        """Read one line received at time `at`; `protocol` is False for streams that only carry text."""
        if not protocol or not (line.startswith(b'{"') or _OBJECT.match(line)):
            return LogLine(self.text(line))
        try:
            fields = _load(line)
            if (kind := fields["type"]) not in HANDLERS:
                raise ProtocolError('its "type" is not one of the protocol')
            # Uploads need the path unchanged; the collector redacts the rest.
            if self._redact and kind not in _PATHS and self._redact.found_in(line):
                fields = _without_secrets(fields, self._redact)
            event = HANDLERS[kind](fields, at, line)
        # RecursionError: brackets nested deeper than Python can follow.
        except (ValueError, KeyError, RecursionError) as error:
            self.why = _reason(error)
            return LogLine(self.text(line), malformed=True)
        return event

    def read_frame(self, frame: Frame) -> GridEvent | StepBlock | None:
        """Read a frame; None when it cannot be, and `why` states the reason."""
        try:
            if frame.problem:
                raise ProtocolError(frame.problem)
            fields, start = read_header(frame.payload)
            # The columns are numbers; as in lines, a secret may occur in them by chance only.
            if self._redact and self._redact.found_in(frame.payload[:start]):
                fields = _scrubbed(fields, self._redact)
            read = read_steps if fields["type"] == "steps" else read_grid
            return read(fields, frame.payload, start)
        except (ValueError, KeyError, TypeError) as error:
            self.why = _reason(error)
            return None

    def text(self, line: bytes) -> str:
        """The line as text: without secrets, and with a replacement character for each invalid byte."""
        return self.redacted(line.decode("utf-8", "replace"))

    def redacted(self, text: str) -> str:
        """A text without secrets."""
        return self._redact(text) if self._redact else text


def _reason(error: Exception) -> str:
    """The reason without any of the trainer's text, which may contain a secret."""
    match error:
        case KeyError():
            return f'"{error.args[0]}" is missing'
        case ProtocolError():
            return str(error)
        case RecursionError():
            return "it is nested too deeply"
    return "it is not JSON"


def _load(line: bytes) -> Any:
    """The line's object. orjson is fast, but supports neither NaN nor integers beyond 64 bits."""
    fields: Any
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        fields = json.loads(line.decode())
    if not isinstance(fields, dict):
        raise ProtocolError("not an object")
    if "type" not in fields and fields.get("event") == "artifacts":
        fields["type"] = "artifacts"
    kind = fields["type"]
    if type(kind) is not str:
        raise ProtocolError("unknown")
    if kind in _EXACT or _rounded(fields.get("action")) or _rounded(fields.get("obs")):
        fields = json.loads(line)
    return fields


def _rounded(value: object) -> bool:
    """Whether it contains a float so large that the trainer may have written an integer."""
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


def _without_secrets(fields: dict[str, Any], redact: Redactor) -> dict[str, Any]:
    # Encoded columns are numbers, and a short secret may occur in base64 by chance.
    columns = {field: value for field, value in fields.items() if _is_encoded(fields, field)}
    return {**_scrubbed(fields, redact), **columns}


def _is_encoded(fields: dict[str, Any], field: str) -> bool:
    if fields["type"] not in ("steps", "reset"):
        return False
    value = fields[field]
    return field in ("flags", "obs_hash") or is_column(value)


def _scrubbed(value: Any, redact: Redactor) -> Any:
    if type(value) is str:
        return redact(value)
    if type(value) is list:
        return [_scrubbed(each, redact) for each in value]
    if type(value) is dict:
        return {redact(field): _scrubbed(each, redact) for field, each in value.items()}
    return value
