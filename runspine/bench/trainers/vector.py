"""Cost of capturing a vector env for the trainer, by how many envs it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from runspine.bench.kit.drain import drained
from runspine.bench.kit.figures import Report, spread
from runspine.bench.kit.trivial import TrivialVector
from runspine.frames import FRAMES
from runspine.sdk.wrapping import wrapped

# Envs, steps of all of them in a round, slots whose actions and observations are kept (0: all), target in µs.
SIZES = ((64, 2_000, 0, 0.15), (512, 400, 0, None), (4096, 60, 16, 0.05))
# As lines, for comparison: with fewer steps, because each takes longer.
LINES = ((64, 200, 0),)


def measure_vectors(report: Report, folder: Path, rounds: int) -> None:
    for envs, steps, whole, target in SIZES:
        added = spread(_costs(folder, envs, steps, whole, rounds, str(FRAMES)))
        kept = f", {whole} whole" if whole else ""
        aim = {"target": f"≤ {target} µs", "met": added["value"] <= target} if target else {}
        report.add(f"CPU for a captured step of {envs:,} envs{kept}", unit="µs", **added, **aim)
    for envs, steps, whole in LINES:
        added = spread(_costs(folder, envs, steps, whole, rounds, ""))
        report.add(f"CPU for a captured step of {envs:,} envs, as lines", unit="µs", **added)


def _costs(folder: Path, envs: int, steps: int, whole: int, rounds: int, frames: str) -> list[float]:
    """µs of CPU that capturing adds to a step of one env, in each round."""
    bare, actions = TrivialVector(envs), np.zeros(envs, np.int64)
    with drained(folder, FRAMES=frames, CAPTURE_WHOLE=str(whole or "")) as drain:
        captured = wrapped(drain.run, TrivialVector(envs), None)
        for env in (bare, captured):
            env.reset()
            _walk(env, actions, 20)
        pairs = [(_walk(bare, actions, steps), _walk(captured, actions, steps)) for _ in range(rounds)]
    taken = envs * (rounds * steps + 20)
    assert drain.counts["steps"] == taken, f"{drain.counts} of {taken} steps"
    return [(after - before) / steps / envs * 1e6 for before, after in pairs]


def _walk(env: Any, actions: Any, steps: int) -> float:
    step, began = env.step, time.process_time()
    for _ in range(steps):
        step(actions)
    return time.process_time() - began
