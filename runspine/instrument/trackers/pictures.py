"""Pictures and tables of any form as files. Needs numpy only."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from runspine.instrument.startup.sitecustomize import MAX_TEXT

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Kind of colour in PNG, by channels.
_COLOURS = {1: 0, 3: 2, 4: 6}


def write_picture(given: Any, path: Path) -> Path:
    """Write a picture as a file: `path` with a suffix. `given`: a path, a PIL image, a figure, an array."""
    if isinstance(given, (str, os.PathLike)):
        target = path.with_suffix(Path(given).suffix or ".png")
        shutil.copyfile(given, target)
        return target
    target = path.with_suffix(".png")
    if hasattr(given, "savefig"):
        given.savefig(target, format="png")
    elif hasattr(given, "save") and hasattr(given, "size") and not hasattr(given, "dtype"):
        given.save(target, format="PNG")
    else:
        target.write_bytes(png(pixels(given)))
    return target


def pixels(given: Any) -> np.ndarray:
    """An array or tensor as bytes [height, width, channels]. Raises ValueError."""
    tensor = hasattr(given, "detach")
    array = np.asarray(given.detach().cpu().numpy() if tensor else given)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise ValueError(f"a picture has 2 or 3 dimensions, this array has {array.ndim}")
    if tensor or (array.shape[2] not in _COLOURS and array.shape[0] in _COLOURS):
        array = np.moveaxis(array, 0, 2)
    if array.shape[2] not in _COLOURS:
        raise ValueError(f"a picture has 1, 3 or 4 channels, this array has {array.shape[2]}")
    if array.dtype.kind == "f":
        finite = np.nan_to_num(array)
        in_unit = finite.size and finite.min() >= 0 and finite.max() <= 1
        array = finite * 255 if in_unit else finite
    if array.dtype.kind == "b":
        array = array * np.uint8(255)
    return np.ascontiguousarray(np.clip(array, 0, 255).astype(np.uint8))


def png(image: np.ndarray) -> bytes:
    """Bytes [height, width, channels] as a PNG file."""
    height, width, channels = image.shape
    # Each line begins with the number of its filter: none.
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    data = zlib.compress(lines.tobytes(), 6)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def write_table(columns: list[Any], rows: list[list[Any]], path: Path) -> Path:
    """Write a table as JSON: its columns, and a list for each row."""
    target = path.with_suffix(".json")
    found = {
        "columns": [str(name) for name in columns],
        "data": [[cell(each) for each in row] for row in rows],
    }
    target.write_text(json.dumps(found, separators=(",", ":")), encoding="utf-8")
    return target


def cell(value: Any) -> Any:
    """The value of a cell for JSON; media by their names."""
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (list, tuple)):
        return [cell(each) for each in value]
    if isinstance(value, dict):
        return {str(key): cell(each) for key, each in value.items()}
    return str(value)[:MAX_TEXT]
