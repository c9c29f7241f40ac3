"""State of an env's random generators: read before each reset, set before a replay."""

from __future__ import annotations

import zlib
from binascii import a2b_base64, b2a_base64
from typing import Any

import numpy as np

MAX_STATE_BYTES = 1 << 20


def generator_state(bare: Any) -> dict[str, Any] | None:
    """State of an unwrapped env's generator; None without one. Reading it fixes one never seeded."""
    try:
        state: dict[str, Any] = bare.np_random.bit_generator.state
        return state
    except Exception:  # noqa: BLE001 - an env may do anything when asked for its generator
        return None


def set_generator_state(env: Any, state: dict[str, Any]) -> None:
    kind = state["bit_generator"]
    bare = env.unwrapped
    if type(bare.np_random.bit_generator).__name__ != kind:
        bare.np_random = np.random.Generator(getattr(np.random, kind)())
    bare.np_random.bit_generator.state = state


def system_state(bare: Any) -> dict[str, Any] | None:
    """State of an emulator, as JSON; None for all other envs.

    The Arcade Learning Environment draws sticky actions from a generator of its own, which no reset
    without a seed sets. Its system state holds that.
    """
    emulator = getattr(bare, "ale", None)
    if emulator is None:
        return None
    try:
        data = zlib.compress(emulator.cloneSystemState().serialize(), 1)
    except Exception:  # noqa: BLE001 - an env may call anything its `ale`
        return None
    return {"kind": "ale", "zlib": b2a_base64(data, newline=False).decode("ascii")}


def set_system_state(env: Any, state: dict[str, Any]) -> None:
    import ale_py

    # Bounds the memory: a few compressed bytes may expand to anything.
    data = zlib.decompressobj().decompress(a2b_base64(state["zlib"]), MAX_STATE_BYTES)
    env.unwrapped.ale.restoreSystemState(ale_py.ALEState(data))
