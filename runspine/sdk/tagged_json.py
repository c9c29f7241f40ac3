"""Structured values as JSON that can be decoded exactly, dtypes included. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from runspine.sdk.encoding import NUMERIC, base64_text, plain, rows_of, unpacked


def tagged(value: Any) -> Any:
    """Encode a structured value as JSON values; `untagged` decodes it exactly, dtypes included."""
    if isinstance(value, dict):
        return {"dict": [[key, tagged(item)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [tagged(item) for item in value]}
    if isinstance(value, np.ndarray | np.generic):
        data = base64_text(value.tobytes())
        return {"array": [value.dtype.str, list(value.shape), data, isinstance(value, np.generic)]}
    return plain(value)


def untagged(encoded: Any) -> Any:
    match encoded:
        case {"dict": items}:
            return {key: untagged(item) for key, item in items}
        case {"array": [dtype, shape, data, scalar]}:
            array = rows_of(unpacked({"dtype": dtype, "shape": [], "data": data})).reshape(shape)
            return array[()] if scalar else array.copy()
        case {"tuple": items}:
            return tuple(map(untagged, items))
        case {"list": items}:
            return list(map(untagged, items))
    return encoded


def is_encodable(value: Any) -> bool:
    """Whether `tagged` loses nothing: the value holds no function and no other object."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_encodable(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(map(is_encodable, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in NUMERIC
    return value is None or isinstance(value, str | bool | int | float)
