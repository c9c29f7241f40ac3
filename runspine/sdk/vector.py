"""Recording of vector envs: one recorder for each of their slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from runspine.sdk import recorded
from runspine.sdk.identity import Identity, identity_of
from runspine.sdk.recorded import RecordedEnv
from runspine.sdk.run import Run
from runspine.sdk.slot_recorder import SlotRecorder

if TYPE_CHECKING:
    Base = gymnasium.vector.VectorWrapper[Any, Any, Any, Any, Any]
else:
    # Its name before Gymnasium 1.0.
    Base = getattr(gymnasium.vector, "VectorWrapper", None) or gymnasium.vector.VectorEnvWrapper

NEXT_STEP, SAME_STEP = "NextStep", "SameStep"


def wrapped(run: Run, env: Any, slot: int | None) -> Any:
    """Record each env inside where possible, so that every reset is seen; else all of them from outside."""
    first = run.free_slots(env.num_envs) if slot is None else slot
    bare = env.unwrapped
    if not isinstance(bare, SyncVectorEnv):
        return RecordedBatch(env, run, first)
    envs = [recorded.wrapped(run, inner, first + index) for index, inner in enumerate(bare.envs)]
    bare.envs = type(bare.envs)(envs)
    return RecordedEnvs(env, envs)


class RecordedEnvs(Base):
    """A vector env whose envs are recorded one by one."""

    def __init__(self, env: Any, envs: list[RecordedEnv]) -> None:
        super().__init__(env)
        self._recorded = envs
        self.step = env.step  # type: ignore[method-assign]
        self.reset = env.reset  # type: ignore[method-assign]

    def snapshot(self) -> list[dict[str, Any]]:
        """State of each env in its episode, as plain data. Raises RuntimeError when it is not known."""
        return [env.snapshot() for env in self._recorded]

    def restore(self, snapshots: list[dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
        """Replay fresh envs to the snapshots; return their observations, batched. Raises DivergedError."""
        pairs = zip(self._recorded, snapshots, strict=True)
        newest = [env.restore(snapshot)[0] for env, snapshot in pairs]
        bare: Any = self.env.unwrapped
        ended = np.array([env.recorder.ended for env in self._recorded])
        # An env that ended in the last step is reset in the next one; Gymnasium keeps that private.
        if hasattr(bare, "_autoreset_envs"):
            bare._autoreset_envs = ended
        if any(observation is None for observation in newest):
            return None, {}
        space = bare.single_observation_space
        batch: Any = create_empty_array(space, n=len(newest), fn=np.zeros)
        return concatenate(space, newest, batch), {}

    def close(self, **kwargs: Any) -> Any:
        for env in self._recorded:
            env.recorder.run.retire(env.recorder)
        return self.env.close(**kwargs)


class RecordedBatch(Base):
    """A vector env whose envs cannot be accessed (other processes, one array), recorded from outside.

    Resets are detected from the results, without the generator's state: such episodes can be replayed
    from the beginning of the run, not one by one, and there is no snapshot.
    """

    def __init__(self, env: Any, run: Run, first: int) -> None:
        super().__init__(env)
        count = env.num_envs
        self._recorders = [SlotRecorder(run, first + index) for index in range(count)]
        self._row: Any = None
        self._feeds = [recorder.recording(lambda _: self._row) for recorder in self._recorders]
        self._mode = autoreset_mode(env)
        self._done = [False] * count

    def step(self, actions: Any) -> Any:
        kept = self._quietly(self._each_action, actions)
        result = self.env.step(actions)
        if kept is not None:
            self._quietly(self._record, kept, result)
        return result

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        given = dict(options or {})
        result = self.env.reset(seed=seed, options=options)
        self._quietly(self._record_reset, result[0], seed, given)
        return result

    def snapshot(self) -> list[dict[str, Any]]:
        raise RuntimeError(_NO_SNAPSHOT)

    def restore(self, snapshots: list[dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
        raise RuntimeError(_NO_SNAPSHOT)

    def close(self, **kwargs: Any) -> Any:
        for recorder in self._recorders:
            recorder.run.retire(recorder)
        return self.env.close(**kwargs)

    def _each_action(self, actions: Any) -> list[Any]:
        if isinstance(actions, np.ndarray):
            return list(actions.copy())
        return list(iterate(self.env.action_space, actions))

    def _each_observation(self, observations: Any) -> list[Any]:
        if isinstance(observations, np.ndarray):
            return list(observations)
        return list(iterate(self.env.observation_space, observations))

    def _record(self, actions: list[Any], result: Any) -> None:
        observations, rewards, terminations, truncations, infos = result
        rows = zip(
            actions,
            self._each_observation(observations),
            np.asarray(rewards, dtype=np.float64).tolist(),
            np.asarray(terminations).tolist(),
            np.asarray(truncations).tolist(),
            strict=True,
        )
        for index, (action, observation, reward, terminated, truncated) in enumerate(rows):
            done = terminated or truncated
            if self._done[index] and self._mode == NEXT_STEP:
                self._recorders[index].begin(observation)
            elif done and self._mode == SAME_STEP:
                final = _final_observation(infos, index, observation)
                self._row = (final, reward, terminated, truncated, None)
                self._feeds[index](action)
                self._recorders[index].begin(observation)
            else:
                self._row = (observation, reward, terminated, truncated, None)
                self._feeds[index](action)
            self._done[index] = done

    def _record_reset(self, observations: Any, seed: Any, options: dict[str, Any]) -> None:
        mask = options.pop("reset_mask", None)
        seeds = self._seeds(seed)
        for index, observation in enumerate(self._each_observation(observations)):
            if mask is not None and not mask[index]:
                continue
            recorder = self._recorders[index]
            if recorder.resets == 0:
                recorder.introduce(self._identity)
            recorder.begin(observation, seed=seeds[index], options=options or None)
            self._done[index] = False

    def _seeds(self, seed: Any) -> list[Any]:
        """Seeds as Gymnasium gives them to its envs; envs in one array share one generator."""
        if isinstance(seed, list | tuple):
            return list(seed)
        if seed is None or not isinstance(self.env.unwrapped, AsyncVectorEnv):
            return [None] * len(self._recorders)
        return [seed + index for index in range(len(self._recorders))]

    def _identity(self) -> Identity:
        bare: Any = self.env.unwrapped
        spec = bare.get_attr("spec")[0] if isinstance(bare, AsyncVectorEnv) else bare.spec
        return identity_of(bare, spec)

    def _quietly(self, method: Any, *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:  # noqa: BLE001 - a recorder's error is not the trainer's
            for recorder in self._recorders:
                recorder.fail(error)
            return None


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> str:
    """When an ended env is reset; Gymnasium does it in the same step before 1.0, then in the next."""
    mode = (env.metadata or {}).get("autoreset_mode")
    if mode is None:
        return SAME_STEP if gymnasium.__version__.startswith("0.") else NEXT_STEP
    return str(getattr(mode, "value", mode))


def _final_observation(infos: Any, index: int, otherwise: Any) -> Any:
    found = infos.get("final_obs", infos.get("final_observation"))
    if found is None:
        return otherwise
    if isinstance(found, dict):
        return {key: value[index] for key, value in found.items()}
    return found[index]


_NO_SNAPSHOT = (
    "no snapshot of this vector env: its envs are out of reach; use SyncVectorEnv, or wrap each env inside"
)
