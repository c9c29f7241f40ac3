"""Validation of the fields of protocol objects. Pure.

Each function raises ProtocolError for a value that the protocol does not allow.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from math import prod
from typing import Any

from runspine.wire.v1.telemetry_pb2 import Array

MAX_NAME_LENGTH = 4096
_COUNT_END = 1 << 63
_SLOT_END = 1 << 32
# Beyond this an integer does not fit into a float.
_FLOAT_END = 1 << 1000
# Seconds since 1970, up to the year 5138.
_TIME_END = 1e11
_DTYPE = re.compile(r"(?:\|[biu]1|<[iu][248]|<f[248]|<c(?:8|16))\Z")

_json = json.JSONEncoder(separators=(",", ":"))


class ProtocolError(ValueError):
    """The object does not match its type."""


def dumps(value: object) -> str:
    """JSON as Python reads it back: NaN and infinities stay, all else is ASCII."""
    return _json.encode(value)


def name(value: object) -> str:
    """A short text that identifies something; an integer is converted to text."""
    if type(value) is int and -_COUNT_END <= value < _COUNT_END:
        return str(value)
    if type(value) is not str or len(value) > MAX_NAME_LENGTH:
        raise ProtocolError("not a short text")
    if not value.isascii():
        value.encode()
    return value


def prose(value: object) -> str:
    """A text of any length."""
    if type(value) is not str:
        raise ProtocolError("not a text")
    if not value.isascii():
        value.encode()
    return value


def count(value: object) -> int:
    """An integer from 0 on."""
    if type(value) is not int or not 0 <= value < _COUNT_END:
        raise ProtocolError("not a count")
    return value


def slot(value: object) -> int:
    """The number of a slot."""
    if type(value) is not int or not 0 <= value < _SLOT_END:
        raise ProtocolError("not a slot")
    return value


def number(value: object) -> float:
    """A float, or an integer that fits into one."""
    if type(value) is float:
        return value
    if type(value) is not int or abs(value) >= _FLOAT_END:
        raise ProtocolError("not a number")
    return float(value)


def micros(value: object) -> int:
    """Seconds since 1970 as microseconds."""
    seconds = number(value)
    if not 0 <= seconds < _TIME_END:
        raise ProtocolError("not a time")
    return int(seconds * 1e6)


def flag(value: object) -> bool:
    """A boolean, or 0 or 1."""
    if value is True or value is False:
        return value
    if type(value) is int and value in (0, 1):
        return value == 1
    raise ProtocolError("neither true nor false")


def encoded(value: object) -> bytes:
    """The bytes of a base64 text."""
    if type(value) is not str:
        raise ProtocolError("not base64")
    return a2b_base64(value, strict_mode=True)


def is_column(value: object) -> bool:
    """Whether a value is an encoded column."""
    return type(value) is dict and value.keys() >= {"dtype", "shape", "data"}


def dtype_of(value: object) -> str:
    """The type of a column, as numpy names it."""
    if type(value) is not str or not _DTYPE.match(value):
        raise ProtocolError("not a type of numbers")
    return value


def array(value: object, rows: int) -> Array:
    """A column of `rows` rows, with its bytes unchanged."""
    if type(value) is not dict:
        raise ProtocolError("not a column")
    dtype, shape = value["dtype"], value["shape"]
    if type(dtype) is not str or not _DTYPE.match(dtype) or type(shape) is not list:
        raise ProtocolError("not a column")
    data = encoded(value["data"])
    if len(data) != rows * prod(map(slot, shape)) * int(dtype[2:]):
        raise ProtocolError("not as long as it states")
    return Array(dtype=dtype, shape=shape, data=data)


def texts(value: list[Any], rows: int) -> list[str]:
    """A column of JSON values, one for each row."""
    if len(value) != rows:
        raise ProtocolError("not as long as it states")
    return [dumps(each) for each in value]
