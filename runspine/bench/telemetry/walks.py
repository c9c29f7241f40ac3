"""CartPole's physics for many poles at once: distinct trajectories at a million steps a second."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

# Gymnasium's CartPole-v1.
GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
EDGE, TILT, MAX_STEPS = 2.4, 12 * np.pi / 180, 500
POLES = 256
TERMINATED, TRUNCATED = 1, 2

# Share of random pushes instead of a good rule, from the first pole to the last.
POLICIES = {"random": (1.0, 1.0), "learning": (0.0, 0.7)}


class Walk(NamedTuple):
    """Consecutive steps: actions, observations and flags."""

    actions: Array
    observations: Array
    flags: Array
    # Observation of the reset before each step that begins an episode; elsewhere meaningless.
    first: Array


def walk(policy: str, steps: int, seed: int) -> Walk:
    """Simulate steps, in whole episodes except the last of each pole."""
    chance = np.random.default_rng(seed)
    rows = -(-steps // POLES)
    shape = (rows, POLES)
    actions, flags = np.empty(shape, np.int64), np.zeros(shape, np.uint8)
    observations, first = np.empty((*shape, 4), np.float32), np.empty((*shape, 4), np.float32)
    noise = np.linspace(*POLICIES[policy], POLES)
    state, age = chance.uniform(-0.05, 0.05, (POLES, 4)), np.zeros(POLES, np.int64)
    for row in range(rows):
        first[row] = state
        actions[row] = _choose(state, noise, chance)
        state = _push(state, actions[row])
        age += 1
        observations[row] = state
        fell = (np.abs(state[:, 0]) > EDGE) | (np.abs(state[:, 2]) > TILT)
        late = age >= MAX_STEPS if row + 1 < rows else np.ones(POLES, bool)
        flags[row] = np.where(fell, TERMINATED, np.where(late, TRUNCATED, 0))
        over = fell | late
        state[over], age[over] = chance.uniform(-0.05, 0.05, (int(over.sum()), 4)), 0
    # One pole after the other.
    turned = [np.swapaxes(column, 0, 1).reshape(rows * POLES, -1) for column in (observations, first)]
    return Walk(actions.T.ravel()[:steps], turned[0][:steps], flags.T.ravel()[:steps], turned[1][:steps])


def _choose(state: Array, noise: Array, chance: np.random.Generator) -> Array:
    rule = state[:, 2] + 0.5 * state[:, 3] + 0.02 * state[:, 1] + 0.02 * state[:, 0] > 0
    return np.where(chance.random(POLES) < noise, chance.integers(0, 2, POLES), rule)


def _push(state: Array, actions: Array) -> Array:
    _, speed, angle, turning = state.T
    force = np.where(actions == 1, FORCE, -FORCE)
    sine, cosine, total = np.sin(angle), np.cos(angle), CART + POLE
    pull = (force + POLE * HALF_LENGTH * turning**2 * sine) / total
    twist = (GRAVITY * sine - cosine * pull) / (HALF_LENGTH * (4 / 3 - POLE * cosine**2 / total))
    push = pull - POLE * HALF_LENGTH * twist * cosine / total
    changes = np.stack([speed, push, turning, twist], 1)
    moved: Array = state + TAU * changes
    return moved
