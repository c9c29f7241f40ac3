"""Wrappers that record envs which cannot be accessed one by one: other processes, one array, one device."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from runspine.sdk import lines
from runspine.sdk.batch.autoreset import Autoreset, stated_mode
from runspine.sdk.batch.grid import GridRecorder
from runspine.sdk.batch.observed import env_rows
from runspine.sdk.batch.rows import leaf, on_host
from runspine.sdk.batch.slots import SlotRecorders
from runspine.sdk.columns import observation_column
from runspine.sdk.episode import Episode
from runspine.sdk.identity import Identity, identity_of
from runspine.sdk.run import Run

if TYPE_CHECKING:
    Base = gymnasium.vector.VectorWrapper[Any, Any, Any, Any, Any]
else:
    # Its name before Gymnasium 1.0.
    Base = getattr(gymnasium.vector, "VectorWrapper", None) or gymnasium.vector.VectorEnvWrapper


class BatchObserver:
    """Records what goes into an env of many and what comes out. Never raises.

    Resets are detected from the results, without the generator's state: such episodes can be replayed
    from the beginning of the run, not one by one, and there is no snapshot.
    """

    def __init__(self, run: Run, env: Any, count: int, first: int) -> None:
        self._run, self._env = run, env
        self._autoreset = Autoreset(stated_mode(env), run.note, self._mark)
        kind = GridRecorder if run.frames else SlotRecorders
        self.recorder = kind(run, first, count, self._autoreset.mode)
        self._identity: Identity | None = None
        self._resets = 0

    def before_step(self, actions: Any) -> None:
        if not self.recorder.failure:
            self._quietly(self.recorder.before_step, actions)

    def after_step(self, result: Any) -> None:
        if not self.recorder.failure:
            self._quietly(self._record, *result)

    def after_reset(self, observations: Any, seed: Any, options: dict[str, Any]) -> None:
        if not self.recorder.failure:
            self._quietly(self._record_reset, observations, seed, options)

    def close(self) -> None:
        self.recorder.close()

    def _record(self, observations: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> None:
        recorder = self.recorder
        if not self._autoreset.known:
            done = on_host(terminated).astype(bool) | on_host(truncated).astype(bool)
            self._autoreset.look(leaf(observations), rewards, done, infos)
            recorder.mode = self._autoreset.mode
        recorder.after_step(observations, rewards, terminated, truncated, infos)

    def _record_reset(self, observations: Any, seed: Any, options: dict[str, Any]) -> None:
        mask = options.pop("reset_mask", None)
        recorder, chosen = self.recorder, None if mask is None else np.asarray(mask, bool)
        self._autoreset.begin(leaf(observations))
        numbers = recorder.begin(chosen)
        seeds = self._seeds(seed)
        for index, observation in enumerate(env_rows(observations, recorder.whole)):
            if chosen is not None and not chosen[index]:
                continue
            if isinstance(recorder, SlotRecorders):
                self._begin_slot(recorder, index, observation, seeds[index], options or None)
            elif numbers is not None:
                self._write_reset(index, int(numbers[index]), observation, seeds[index], options or None)
        self._resets += 1

    def _begin_slot(
        self, recorder: SlotRecorders, index: int, observation: Any, seed: Any, options: Any
    ) -> None:
        slot = recorder.recorders[index]
        if slot.resets == 0:
            slot.introduce(self._introduced)
        slot.begin(observation, seed=seed, options=options)

    def _write_reset(self, index: int, number: int, observation: Any, seed: Any, options: Any) -> None:
        run, now = self._run, time.time()
        slot = run.rank.slot(run.rank.own(self.recorder.slot) + index)
        if not run.pipe.open:
            return
        if not self._resets:
            run.pipe.write_later(200, lines.env, slot, self._introduced(), now)
        column = observation_column(observation, run.capture)
        episode = Episode(number, f"{slot}-{number}{run.ids.end}", self._resets, seed, options, at=now)
        episode.first, episode.first_column = column.row_of(observation), column
        run.pipe.write_later(300, lines.reset, slot, episode)

    def _seeds(self, seed: Any) -> list[Any]:
        """Seeds as Gymnasium gives them to its envs; envs in one array share one generator."""
        count = self.recorder.count
        if isinstance(seed, list | tuple):
            return list(seed)
        if seed is None or not isinstance(
            getattr(self._env, "unwrapped", None), gymnasium.vector.AsyncVectorEnv
        ):
            return [None] * count
        return [seed + index for index in range(count)]

    def _introduced(self) -> Identity:
        if self._identity is None:
            bare: Any = getattr(self._env, "unwrapped", self._env)
            several = isinstance(bare, gymnasium.vector.AsyncVectorEnv)
            spec = bare.get_attr("spec")[0] if several else getattr(bare, "spec", None)
            self._identity = identity_of(bare, spec)
        return self._identity

    def _mark(self, mode: str) -> None:
        self._run.log_config({"autoreset": mode})

    def _quietly(self, method: Any, *args: Any) -> None:
        try:
            method(*args)
        except Exception as error:  # noqa: BLE001 - a recorder's error is not the trainer's
            self.recorder.fail(error)


class RecordedBatch(Base):
    """A vector env that is recorded from outside."""

    def __init__(self, env: Any, run: Run, first: int) -> None:
        super().__init__(env)
        self._observer = BatchObserver(run, env, env.num_envs, first)

    def step(self, actions: Any) -> Any:
        self._observer.before_step(actions)
        result = self.env.step(actions)
        self._observer.after_step(result)
        return result

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        given = dict(options or {})
        result = self.env.reset(seed=seed, options=options)
        self._observer.after_reset(result[0], seed, given)
        return result

    def snapshot(self) -> list[dict[str, Any]]:
        raise RuntimeError(_NO_SNAPSHOT)

    def restore(self, snapshots: list[dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
        raise RuntimeError(_NO_SNAPSHOT)

    def close(self, **kwargs: Any) -> Any:
        self._observer.close()
        return self.env.close(**kwargs)


class RecordedBatchedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A `gymnasium.Env` that is many envs, as those of Isaac Lab: `num_envs`, and results of shape [envs]."""

    def __init__(self, env: gymnasium.Env[Any, Any], run: Run, first: int, count: int) -> None:
        super().__init__(env)
        self.num_envs = count
        self._observer = BatchObserver(run, env, count, first)

    def step(self, action: Any) -> Any:
        self._observer.before_step(action)
        result = self.env.step(action)
        self._observer.after_step(result)
        return result

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        given = dict(options or {})
        result = self.env.reset(seed=seed, options=options)
        self._observer.after_reset(result[0], seed, given)
        return result

    def close(self) -> None:
        self._observer.close()
        super().close()

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """Spec of the env itself: recording changes nothing about it."""
        return self.env.spec

    def __getattr__(self, name: str) -> Any:
        # Such envs have attributes of their own that trainers use: device, cfg, max_episode_length.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.env, name)


def env_count(env: Any) -> int:
    """How many envs a `gymnasium.Env` is; 0 when it is one."""
    count = getattr(env.unwrapped, "num_envs", None)
    return count if type(count) is int and count > 0 else 0


_NO_SNAPSHOT = (
    "no snapshot of this vector env: its envs are out of reach; use SyncVectorEnv, or wrap each env inside"
)
