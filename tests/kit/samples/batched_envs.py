"""Envs of many in one array, in the shapes of other libraries, which know their own episodes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from runspine.services.worker.protocol.frame_splitter import Frame, FrameSplitter
from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import STDOUT, Batch, Episode, Reset, StepBlock

AT = 1_794_800_549_250_000


class Episodes:
    """Episodes of random length. An observation is slot, episode and step; `ended` lists what was played."""

    def __init__(self, count: int, *, same_step: bool, sparse: bool = False, seed: int = 1) -> None:
        self.count, self.same_step, self.sparse = count, same_step, sparse
        self._rng = np.random.default_rng(seed)
        self.ended: list[tuple[int, int, float]] = []
        self.steps = 0
        self.number = np.full(count, -1)
        self.restart(np.ones(count, bool))

    def restart(self, which: Any) -> None:
        if not hasattr(self, "at"):
            self.at, self.value = np.zeros(self.count, int), np.zeros(self.count)
            self.length, self.over = np.zeros(self.count, int), np.zeros(self.count, bool)
        self.number[which] += 1
        self.at[which], self.value[which], self.over[which] = 0, 0.0, False
        self.length[which] = self._rng.integers(1, 12, int(which.sum()))

    @property
    def seen(self) -> Any:
        return np.stack([np.arange(self.count), self.number, self.at], axis=1).astype(np.float32)

    def step(self) -> tuple[Any, Any, Any, Any, Any]:
        """Observation, reward, terminated, truncated, and the observation before a reset."""
        resetting = self.over.copy()
        if resetting.any():
            self.restart(resetting)
        moving = ~resetting
        self.at[moving] += 1
        self.steps += int(moving.sum())
        end = moving & (self.at >= self.length)
        rewards = np.where(moving, 0.0 if self.sparse else 0.1 + self.at + np.arange(self.count), 0.0)
        self.value += rewards
        truncated = end & (self.length % 2 == 0)
        final = self.seen
        for slot in np.flatnonzero(end).tolist():
            self.ended.append((slot, int(self.at[slot]), float(self.value[slot])))
        if self.same_step:
            if end.any():
                self.restart(end)
        else:
            self.over = end
        return self.seen, rewards, end & ~truncated, truncated, final


class ArrayVector(VectorEnv[Any, Any, Any]):
    """A vector env that does not state when it resets, as those of gymnax and SuperSuit."""

    def __init__(self, count: int, *, same_step: bool, sparse: bool = False, finals: bool = False) -> None:
        self.num_envs = count
        self.metadata = {}
        self.single_observation_space = gymnasium.spaces.Box(-1e6, 1e6, (3,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, count)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, count)
        self.episodes = Episodes(count, same_step=same_step, sparse=sparse)
        self._finals = finals

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.episodes.seen, {}

    def step(self, actions: Any) -> Any:
        seen, rewards, terminated, truncated, final = self.episodes.step()
        done = terminated | truncated
        infos = (
            {"final_obs": [f if d else None for f, d in zip(final, done, strict=True)]} if done.any() else {}
        )
        return seen, rewards, terminated, truncated, infos if self._finals else {}


class TensorEnv(gymnasium.Env[Any, Any]):
    """A `gymnasium.Env` that is many envs, as Isaac Lab's: tensors, observations by group."""

    def __init__(self, count: int) -> None:
        import torch

        self._torch = torch
        self.num_envs = count
        self.device = "cpu"
        self.observation_space = gymnasium.spaces.Dict(
            policy=gymnasium.spaces.Box(-1e6, 1e6, (count, 3), np.float32)
        )
        self.action_space = gymnasium.spaces.Box(-1, 1, (count, 2), np.float32)
        self.episodes = Episodes(count, same_step=True)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return {"policy": self._torch.from_numpy(self.episodes.seen)}, {}

    def step(self, action: Any) -> Any:
        seen, *results, _ = self.episodes.step()
        return {"policy": self._torch.from_numpy(seen)}, *map(self._torch.from_numpy, results), {}


class Archive:
    """What a worker makes of the bytes that a trainer wrote."""

    def __init__(self, data: bytes, chunk: int = 1 << 16) -> None:
        self.assembler, splitter = BatchAssembler("run", 1, RunSpec()), FrameSplitter()
        for start in range(0, len(data), chunk):
            self._take(splitter.feed(data[start : start + chunk]))
        self._take(splitter.finish())
        records = self.assembler.cut(AT, final=True)
        self.batches = [Batch.FromString(record.payload) for record in records]

    def _take(self, items: Any) -> None:
        for item in items:
            if isinstance(item, Frame):
                self.assembler.take_frame(item, AT)
            else:
                self.assembler.take(item, STDOUT, AT)

    @property
    def blocks(self) -> list[StepBlock]:
        return [block for batch in self.batches for block in batch.steps.blocks]

    @property
    def resets(self) -> list[Reset]:
        return [reset for batch in self.batches for reset in batch.envs.resets]

    @property
    def episodes(self) -> list[Episode]:
        return [episode for batch in self.batches for episode in batch.episodes.episodes]

    @property
    def ended(self) -> list[tuple[int, int, float]]:
        """Slot, length and return of every episode."""
        return [(each.slot, each.steps, getattr(each, "return")) for each in self.episodes]

    @property
    def log(self) -> str:
        return "\n".join(line.text for batch in self.batches for line in batch.logs.lines)

    def whole(self, episode_id: str, name: str) -> Any:
        """A column of an episode, in order and without a gap."""
        blocks = [block for block in self.blocks if block.episode_id == episode_id]
        at = 0
        for block in blocks:
            assert block.first_step == at
            at += block.count
        parts = [getattr(block, name) for block in blocks]
        return np.concatenate(
            [np.frombuffer(part.data, part.dtype).reshape(-1, *part.shape) for part in parts]
        )
