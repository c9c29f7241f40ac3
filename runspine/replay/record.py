"""The record of an episode: its start and every step. Pure."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from runspine.errors import RunNotFoundError
from runspine.replay.observations import NoObservations, observations_in
from runspine.sdk.episode_start import EpisodeStart
from runspine.sdk.lines import TERMINATED, TRUNCATED
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse, Reset, StepBlock


class RecordedStep(NamedTuple):
    """One recorded step; `observation` is the one after it, None where it was not kept whole."""

    number: int
    action: Any
    reward: float
    terminated: bool
    truncated: bool
    observation: Any


class EpisodeRecord:
    """Steps from the first on without a gap; steps after a gap cannot be replayed and are left out.

    With several agents in an episode, the steps of one: the first unless another is named.
    """

    def __init__(self, response: GetEpisodeResponse, agent: str | None = None) -> None:
        self.response = response
        self.agents = list(dict.fromkeys(block.agent_id for block in response.blocks))
        if agent is not None and agent not in self.agents:
            raise RunNotFoundError(
                f"no agent {agent!r} in this episode; there are {', '.join(self.agents) or 'none'}"
            )
        self.env = response.env
        self.start = _start(response.reset)
        self.first: NoObservations = observations_in(response.reset)
        self._blocks, self._starts, self.length = _joined(
            response.blocks, self.agents[:1] if agent is None else [agent]
        )
        self._near = (0, 0, 0)
        self._seen = [observations_in(block) for block in self._blocks]
        self._actions = [_rows(block) for block in self._blocks]
        self.rewards = _together([np.frombuffer(b.reward.data, b.reward.dtype) for b in self._blocks])
        self.flags = b"".join(block.flags for block in self._blocks)

    @property
    def id(self) -> str:
        return self.response.entry.episode.episode_id

    @property
    def slot(self) -> int:
        return self._blocks[0].slot if self._blocks else self.response.reset.slot

    @property
    def missing(self) -> int:
        """How many steps of the episode are not on record."""
        return max(0, self.response.entry.episode.steps - self.length)

    @property
    def kwargs(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.env.kwargs_json or "{}")
        return found

    @property
    def is_scalar(self) -> bool:
        """Whether actions are single numbers, which may have been Python numbers."""
        return any(rows is not None and rows.ndim == 1 for rows in self._actions)

    @property
    def kinds(self) -> dict[str, int]:
        """Number of observations by how they were kept, the first one included."""
        found = {self.first.kind: 1} if self.response.HasField("reset") else {}
        for seen, block in zip(self._seen, self._blocks, strict=True):
            found[seen.kind] = found.get(seen.kind, 0) + block.count
        return found

    def seen(self, number: int) -> tuple[NoObservations, int]:
        """The observations that hold the one after a step, and its row there."""
        block, row = self._place(number)
        return self._seen[block], row

    def actor(self, number: int) -> str:
        """The actor that chose the action; empty outside a play session."""
        return self._blocks[self._place(number)[0]].actor

    def action(self, number: int, python: bool = False) -> Any:
        """The action as given to the env: a number, a new array, or the decoded JSON."""
        block, row = self._place(number)
        rows = self._actions[block]
        if rows is None:
            return json.loads(self._blocks[block].action_json[row])
        if rows.ndim > 1:
            return rows[row].copy()
        return rows[row].item() if python else rows[row]

    def step(self, number: int) -> RecordedStep:
        seen, row = self.seen(number)
        flags = self.flags[number]
        return RecordedStep(
            number,
            self.action(number),
            float(self.rewards[number]),
            bool(flags & TERMINATED),
            bool(flags & TRUNCATED),
            seen.value(row),
        )

    def _place(self, number: int) -> tuple[int, int]:
        """Block of a step, and its row there. Usually the block of the previous step."""
        block, start, end = self._near
        if start <= number < end:
            return block, number - start
        if not 0 <= number < self.length:
            raise IndexError(f"step {number} of an episode with {self.length}")
        block = bisect_right(self._starts, number) - 1
        start = self._starts[block]
        self._near = (block, start, start + self._blocks[block].count)
        return block, number - start


def _start(reset: Reset) -> EpisodeStart:
    seed, options, rng, state = (
        json.loads(text) if text else None
        for text in (reset.seed_json, reset.options_json, reset.rng_json, reset.state_json)
    )
    return EpisodeStart(seed, options, rng, state, reset.ordinal)


def _joined(blocks: Sequence[StepBlock], agents: list[str]) -> tuple[list[StepBlock], list[int], int]:
    """Consecutive blocks of one agent, up to the first gap."""
    found: list[StepBlock] = []
    starts: list[int] = []
    at = 0
    for block in blocks:
        if block.agent_id in agents and block.first_step == at and block.count:
            found.append(block)
            starts.append(at)
            at += block.count
    return found, starts, at


def _rows(block: StepBlock) -> np.ndarray[Any, Any] | None:
    if not block.HasField("action"):
        return None
    rows = np.frombuffer(block.action.data, block.action.dtype)
    return rows.reshape(block.count, *block.action.shape) if block.action.shape else rows


def _together(columns: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return np.concatenate(columns).astype(np.float64) if columns else np.empty(0)
