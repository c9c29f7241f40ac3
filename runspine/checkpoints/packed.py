"""Arrays as the builtin runner packs them, unfolded no further than they say. Needs numpy."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from runspine.checkpoints.bad import BadCheckpoint

LARGEST = 1 << 30


def unpack(packed: Any, name: str) -> npt.NDArray[Any]:
    """Raises BadCheckpoint for what is not exactly as large as it says."""
    try:
        dtype, shape = np.dtype(packed["dtype"]), [int(each) for each in packed["shape"]]
        squeezed = packed["zlib"].cpu().numpy().tobytes()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadCheckpoint(f"{name} is not a packed array: {error}") from error
    if dtype.kind not in "fiub" or any(each < 0 for each in shape):
        raise BadCheckpoint(f"{name} is not an array of numbers")
    size = math.prod(shape) * dtype.itemsize
    if size > LARGEST:
        raise BadCheckpoint(f"{name} would unfold to {size:,} bytes, more than the {LARGEST:,} accepted")
    try:
        raw = zlib.decompressobj().decompress(squeezed, size + 1)
    except zlib.error as error:
        raise BadCheckpoint(f"{name} is damaged: {error}") from error
    if len(raw) != size:
        raise BadCheckpoint(f"{name} unfolds to other than the {size:,} bytes it says")
    return np.frombuffer(bytearray(raw), dtype).reshape(shape)
