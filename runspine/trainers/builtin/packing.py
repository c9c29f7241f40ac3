"""Packs arrays as tensors and plain types, so that a checkpoint loads without running pickled code."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
# Level 1: observations hardly shrink further, and a checkpoint should not keep the training waiting.
LEVEL = 1


def pack(array: Array) -> dict[str, Any]:
    """Compress an array."""
    squeezed = zlib.compress(np.ascontiguousarray(array).data, LEVEL)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "zlib": torch.frombuffer(bytearray(squeezed), dtype=torch.uint8),
    }


def unpack(packed: dict[str, Any]) -> Array:
    raw = zlib.decompress(packed["zlib"].cpu().numpy())
    return np.frombuffer(bytearray(raw), dtype=packed["dtype"]).reshape(packed["shape"])
