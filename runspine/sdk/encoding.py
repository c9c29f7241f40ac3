"""Encoding of values in the protocol: JSON text and base64 columns. Pure."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from binascii import a2b_base64, b2a_base64
from typing import Any, NamedTuple

import numpy as np

HASH_BYTES = 8
NUMERIC = "biufc"


class Packed(NamedTuple):
    """Rows of one type and shape, little-endian."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    # Type of rows that were Python ints, floats or bools; empty for numpy's.
    python: str = ""


def plain(value: Any) -> Any:
    """Convert a value to JSON values; what JSON cannot hold becomes its text."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist()) if value.dtype.kind in NUMERIC + "U" else str(value)
    if hasattr(value, "__array__"):
        return plain(np.asarray(value))
    return str(value)


def dumps(value: Any) -> str:
    return json.dumps(plain(value), separators=(",", ":"))


def number(value: float) -> str:
    return repr(value) if math.isfinite(value) else json.dumps(value)


def packed_text(packed: Packed) -> str:
    """`{"dtype", "shape", "data"}`, as in docs/protocol.md."""
    return f'{_header(packed.dtype, packed.shape)}"data":"{base64_text(packed.data)}"}}'


@functools.lru_cache(maxsize=256)
def _header(dtype: str, shape: tuple[int, ...]) -> str:
    return f'{{"dtype":"{dtype}","shape":{list(shape)},'


def base64_text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def unpacked(encoded: dict[str, Any]) -> Packed:
    """Decode the JSON that `packed_text` wrote."""
    return Packed(
        encoded["dtype"], tuple(encoded["shape"]), a2b_base64(encoded["data"]), encoded.get("python", "")
    )


def rows_of(packed: Packed) -> np.ndarray[Any, Any]:
    rows = np.frombuffer(packed.data, dtype=packed.dtype)
    return rows.reshape(-1, *packed.shape) if packed.shape and 0 not in packed.shape else rows


def little(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert to C order and little-endian, as everything on the wire."""
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(array.shape)


def raw_bytes(value: Any) -> bytes:
    """The bytes that are hashed: of an array its data; of a structure those of each leaf, keys in order."""
    if type(value) is np.ndarray and value.dtype.kind in NUMERIC and value.dtype.byteorder != ">":
        return value.tobytes()
    if isinstance(value, dict):
        return b"".join(raw_bytes(value[key]) for key in sorted(value, key=str))
    if isinstance(value, list | tuple):
        return b"".join(map(raw_bytes, value))
    if isinstance(value, str):
        return value.encode()
    array = np.asarray(value)
    return little(array).tobytes() if array.dtype.kind in NUMERIC else str(value).encode()


def digest(value: Any) -> bytes:
    """The first 8 bytes of BLAKE2b of the raw bytes."""
    data = value if type(value) is bytes else raw_bytes(value)
    return hashlib.blake2b(data).digest()[:HASH_BYTES]
