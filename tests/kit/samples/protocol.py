"""Lines of the worker protocol."""

from __future__ import annotations

import base64
from typing import Any


def base(data: bytes) -> str:
    return base64.b64encode(data).decode()


def column(dtype: str, shape: list[int], data: bytes) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data": base(data)}


STEPS = {
    "type": "steps",
    "episode_id": "0-17",
    "slot": 3,
    "first": 128,
    "n": 2,
    "global_step": 4096,
    "action": column("<i8", [], bytes(16)),
    "reward": column("<f8", [], bytes(16)),
    "flags": base(b"\0\1"),
    "obs": column("<f4", [4], bytes(range(32))),
    "t0": 1794800549.25,
    "t1": 1794800549.5,
}
