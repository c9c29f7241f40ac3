"""An env in the middle of an episode, as plain data, and back by exact replay.

A snapshot is how the episode began (the generator's state before the reset, seed, options) and every
action since. It holds only what JSON holds, so that it can go into any checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from runspine.sdk.beginning import Beginning, begin
from runspine.sdk.episode import Episode
from runspine.sdk.tagged import tagged, untagged
from runspine.sdk.tape import Tape
from runspine.sdk.text import Packed, base64_text, digest, plain, rows_of, unpacked

VERSION = 1
PYTHON = {"int": int, "float": float, "bool": bool}


class Diverged(RuntimeError):
    """The env did not come out where the snapshot was taken."""


def take_snapshot(tape: Tape, env_id: str) -> dict[str, Any]:
    """Where the slot stands. Raises RuntimeError when that is not known."""
    if tape.failure:
        raise RuntimeError(f"no snapshot of slot {tape.slot}: recording ended with {tape.failure}")
    with tape.run.lock:
        if tape.busy:
            raise RuntimeError(f"no snapshot of slot {tape.slot} in mid-step: take it between two steps")
        tape.cut()
        return {
            "version": VERSION,
            "env_id": env_id,
            "slot": tape.slot,
            "steps": tape.counted,
            "episode": None if tape.episode is None else _episode(tape, tape.episode),
        }


def _episode(tape: Tape, episode: Episode) -> dict[str, Any]:
    if episode.first_column is None:
        raise RuntimeError(f"no snapshot of slot {tape.slot}: it was stepped on without a reset")
    if episode.too_long:
        raise RuntimeError(f"no snapshot of slot {tape.slot}: its episode has more actions than are kept")
    return {
        "number": episode.number,
        "ordinal": episode.ordinal,
        "seed": plain(episode.seed),
        "options": plain(episode.options),
        "rng": plain(episode.rng),
        "state": episode.state,
        "steps": episode.steps,
        "ended": tape.ended,
        "actions": [_block(block) for block in episode.pack_actions()],
        "first_observation": episode.first_column.digest_of(episode.first).hex(),
        "observation": tape.observations.newest_digest(0).hex(),
    }


def _block(block: Packed | list[Any]) -> dict[str, Any]:
    if isinstance(block, list):
        return {"each": [tagged(value) for value in block]}
    shape = list(block.shape)
    return {"dtype": block.dtype, "shape": shape, "data": base64_text(block.data), "python": block.python}


def blocks_of(said: list[dict[str, Any]]) -> list[Packed | list[Any]]:
    return [list(map(untagged, block["each"])) if "each" in block else unpacked(block) for block in said]


def actions_of(blocks: list[Packed | list[Any]]) -> Iterator[Any]:
    """The actions of an episode, each as it was given to the env."""
    for block in blocks:
        if isinstance(block, list):
            yield from block
            continue
        python = PYTHON.get(block.python)
        for row in rows_of(block):
            yield python(row) if python else (row.copy() if block.shape else row)


def replay(env: Any, snapshot: dict[str, Any]) -> tuple[Replayed, int]:
    """Put the env where the snapshot was taken, and how many resets that took. Raises Diverged."""
    try:
        return Replayed(env, snapshot), 1
    except Diverged:
        ordinal = snapshot["episode"]["ordinal"]
        if not ordinal:
            raise
    # Some envs carry more over a reset than their generator (BipedalWalker's world): as many as it had had.
    return Replayed(env, snapshot, ordinal - 1), ordinal + 1


def beginning_of(began: dict[str, Any]) -> Beginning:
    """How the episode of a snapshot began; older ones know of no emulator."""
    return Beginning(began["seed"], began["options"], began["rng"], began.get("state"), began["ordinal"])


class Replayed:
    """An env put where a snapshot was taken: `observation` and `info` are what its last call gave."""

    def __init__(self, env: Any, snapshot: dict[str, Any], resets: int = 0) -> None:
        self._name = snapshot["env_id"] or "the env"
        began = snapshot["episode"]
        self._count = began["steps"]
        self.value = 0.0
        self.ended = False
        self.observation, self.info = begin(env, beginning_of(began), resets)
        self.first = self.observation if self._count == 0 else _copy(self.observation)
        self._check(began["first_observation"], "after the reset")
        for action in actions_of(blocks_of(began["actions"])):
            self.observation, reward, terminated, truncated, self.info = env.step(action)
            self.value += float(reward)
            self.ended = bool(terminated or truncated)
        self._check(began["observation"], f"after step {self._count}")
        if self.ended != began["ended"]:
            raise Diverged(f"{self._name} did not end its episode where it had: {_ADVICE}")

    def _check(self, expected: str, where: str) -> None:
        if digest(self.observation).hex() != expected:
            raise Diverged(f"{self._name} gave another observation {where} than was recorded: {_ADVICE}")


_ADVICE = (
    "the snapshot belongs to an env made with other arguments or package versions, or the env draws on "
    "randomness besides its own generator"
)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
