"""Snapshots of an env in mid-episode, and restoring them by exact replay.

A snapshot holds how the episode began (the generator's state before the reset, seed, options) and every
action since. It holds only JSON values, so that it fits into any checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from runspine.sdk.encoding import Packed, base64_text, digest, plain, rows_of, unpacked
from runspine.sdk.episode import Episode
from runspine.sdk.episode_start import EpisodeStart, begin
from runspine.sdk.slot_recorder import SlotRecorder
from runspine.sdk.tagged_json import tagged, untagged

VERSION = 1
PYTHON = {"int": int, "float": float, "bool": bool}


class DivergedError(RuntimeError):
    """The replayed env differs from the recorded one."""


def take_snapshot(recorder: SlotRecorder, env_id: str) -> dict[str, Any]:
    """State of the slot in its episode. Raises RuntimeError when it is not known."""
    if recorder.failure:
        raise RuntimeError(f"no snapshot of slot {recorder.slot}: recording ended with {recorder.failure}")
    with recorder.run.lock:
        if recorder.busy:
            raise RuntimeError(f"no snapshot of slot {recorder.slot} in mid-step: take it between two steps")
        recorder.cut()
        return {
            "version": VERSION,
            "env_id": env_id,
            "slot": recorder.slot,
            "steps": recorder.counted,
            "elsewhere": recorder.run.steps_elsewhere,
            "episode": None if recorder.episode is None else _episode(recorder, recorder.episode),
        }


def _episode(recorder: SlotRecorder, episode: Episode) -> dict[str, Any]:
    if episode.first_column is None:
        raise RuntimeError(f"no snapshot of slot {recorder.slot}: it was stepped on without a reset")
    if episode.too_long:
        raise RuntimeError(f"no snapshot of slot {recorder.slot}: its episode has more actions than are kept")
    return {
        "number": episode.number,
        "id": episode.id,
        "ordinal": episode.ordinal,
        "seed": plain(episode.seed),
        "options": plain(episode.options),
        "rng": plain(episode.rng),
        "state": episode.state,
        "steps": episode.steps,
        "ended": recorder.ended,
        "actions": [_block(block) for block in episode.pack_actions()],
        "first_observation": episode.first_column.digest_of(episode.first).hex(),
        "observation": recorder.observations.newest_digest(0).hex(),
    }


def _block(block: Packed | list[Any]) -> dict[str, Any]:
    if isinstance(block, list):
        return {"each": [tagged(value) for value in block]}
    shape = list(block.shape)
    return {"dtype": block.dtype, "shape": shape, "data": base64_text(block.data), "python": block.python}


def blocks_of(encoded: list[dict[str, Any]]) -> list[Packed | list[Any]]:
    return [list(map(untagged, block["each"])) if "each" in block else unpacked(block) for block in encoded]


def actions_of(blocks: list[Packed | list[Any]]) -> Iterator[Any]:
    """Yield the actions of an episode, each as it was given to the env."""
    for block in blocks:
        if isinstance(block, list):
            yield from block
            continue
        python = PYTHON.get(block.python)
        for row in rows_of(block):
            yield python(row) if python else (row.copy() if block.shape else row)


def replay(env: Any, snapshot: dict[str, Any]) -> tuple[Replayed, int]:
    """Replay the env to the snapshot; return it with the number of resets that took. Raises DivergedError."""
    try:
        return Replayed(env, snapshot), 1
    except DivergedError:
        ordinal = snapshot["episode"]["ordinal"]
        if not ordinal:
            raise
    # Some envs keep more across a reset than their generator (BipedalWalker's world): repeat all resets.
    return Replayed(env, snapshot, ordinal - 1), ordinal + 1


def start_of(began: dict[str, Any]) -> EpisodeStart:
    """How the episode of a snapshot began; older snapshots have no emulator state."""
    return EpisodeStart(began["seed"], began["options"], began["rng"], began.get("state"), began["ordinal"])


class Replayed:
    """An env replayed to a snapshot: `observation` and `info` are those of its last call."""

    def __init__(self, env: Any, snapshot: dict[str, Any], resets: int = 0) -> None:
        self._name = snapshot["env_id"] or "the env"
        began = snapshot["episode"]
        self._count = began["steps"]
        self.value = 0.0
        self.ended = False
        self.observation, self.info = begin(env, start_of(began), resets)
        self.first = self.observation if self._count == 0 else _copy(self.observation)
        self._check(began["first_observation"], "after the reset")
        for action in actions_of(blocks_of(began["actions"])):
            self.observation, reward, terminated, truncated, self.info = env.step(action)
            self.value += float(reward)
            self.ended = bool(terminated or truncated)
        self._check(began["observation"], f"after step {self._count}")
        if self.ended != began["ended"]:
            raise DivergedError(f"{self._name} did not end its episode where it had: {_ADVICE}")

    def _check(self, expected: str, where: str) -> None:
        if digest(self.observation).hex() != expected:
            raise DivergedError(f"{self._name} gave another observation {where} than was recorded: {_ADVICE}")


_ADVICE = (
    "the snapshot belongs to an env made with other arguments or package versions, or the env draws on "
    "randomness besides its own generator"
)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
