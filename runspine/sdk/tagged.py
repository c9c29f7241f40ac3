"""Structured values as JSON of which the same can be made again, dtypes included. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from runspine.sdk.text import NUMERIC, base64_text, plain, rows_of, unpacked


def tagged(value: Any) -> Any:
    """A structured value in JSON's terms, of which `untagged` makes the same again, dtypes included."""
    if isinstance(value, dict):
        return {"dict": [[key, tagged(item)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [tagged(item) for item in value]}
    if isinstance(value, np.ndarray | np.generic):
        data = base64_text(value.tobytes())
        return {"array": [value.dtype.str, list(value.shape), data, isinstance(value, np.generic)]}
    return plain(value)


def untagged(said: Any) -> Any:
    match said:
        case {"dict": items}:
            return {key: untagged(item) for key, item in items}
        case {"array": [dtype, shape, data, scalar]}:
            array = rows_of(unpacked({"dtype": dtype, "shape": [], "data": data})).reshape(shape)
            return array[()] if scalar else array.copy()
        case {"tuple": items}:
            return tuple(map(untagged, items))
        case {"list": items}:
            return list(map(untagged, items))
    return said


def is_sayable(value: Any) -> bool:
    """Whether nothing is lost: no function, no object of somebody's own."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_sayable(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(map(is_sayable, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in NUMERIC
    return value is None or isinstance(value, str | bool | int | float)
