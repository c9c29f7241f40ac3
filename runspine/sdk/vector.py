"""Recording of vector envs: each env inside, or all of them from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from runspine.sdk import recorded
from runspine.sdk.batch.wrappers import Base, RecordedBatch
from runspine.sdk.recorded import RecordedEnv
from runspine.sdk.run import Run


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
