"""Clocks and randomness of a schedule: `time`, `os.urandom`, `secrets` and `random` follow the seed."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.simulation.loop import NODE, SimulatedLoop

# The wall clock at the beginning of every schedule.
EPOCH = 1_900_000_000.0


@contextmanager
def simulated_clocks(loop: SimulatedLoop, seed: int) -> Iterator[None]:
    """While it is open, this process lives in the time of the loop."""
    chance = random.Random(f"entropy {seed}")

    def wall() -> float:
        return EPOCH + loop.now + NODE.get().skew

    def sleep(seconds: float) -> None:
        loop.slept += seconds

    def urandom(count: int) -> bytes:
        return chance.randbytes(count)

    def token_hex(count: int = 16) -> str:
        return chance.randbytes(count).hex()

    replaced: list[tuple[Any, str, Any]] = [
        (time, "time", wall),
        (time, "time_ns", lambda: round(wall() * 1e9)),
        (time, "monotonic", lambda: loop.now),
        (time, "monotonic_ns", lambda: round(loop.now * 1e9)),
        (time, "perf_counter", lambda: loop.now),
        (time, "sleep", sleep),
        (os, "urandom", urandom),
        (secrets, "token_hex", token_hex),
    ]
    state = random.getstate()
    random.seed(seed)
    patches = [patch.object(module, name, value) for module, name, value in replaced]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()
        random.setstate(state)
