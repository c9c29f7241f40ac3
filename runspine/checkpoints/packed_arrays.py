"""Arrays as the builtin runner packs them, decompressed at most to their declared size. Needs numpy."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from runspine.checkpoints.errors import CheckpointError

MAX_ARRAY_BYTES = 1 << 30


def unpack(packed: Any, name: str) -> npt.NDArray[Any]:
    """Unpack an array. Raises CheckpointError unless it has exactly its declared size."""
    try:
        dtype, shape = np.dtype(packed["dtype"]), [int(each) for each in packed["shape"]]
        compressed = packed["zlib"].cpu().numpy().tobytes()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{name} is not a packed array: {error}") from error
    if dtype.kind not in "fiub" or any(each < 0 for each in shape):
        raise CheckpointError(f"{name} is not an array of numbers")
    size = math.prod(shape) * dtype.itemsize
    if size > MAX_ARRAY_BYTES:
        raise CheckpointError(
            f"{name} would decompress to {size:,} bytes, more than the {MAX_ARRAY_BYTES:,} accepted"
        )
    try:
        raw = zlib.decompressobj().decompress(compressed, size + 1)
    except zlib.error as error:
        raise CheckpointError(f"{name} is damaged: {error}") from error
    if len(raw) != size:
        raise CheckpointError(f"{name} does not decompress to the {size:,} bytes it declares")
    return np.frombuffer(bytearray(raw), dtype).reshape(shape)
