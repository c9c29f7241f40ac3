"""Chooses the wrapper of an env."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runspine.sdk.run import Run


def wrapped(run: Run, env: Any, slot: int | None) -> Any:
    """Return the env with recording. Raises TypeError when it is no env of Gymnasium or PettingZoo."""
    import gymnasium

    from runspine.sdk import recorded, vector
    from runspine.sdk.batch import pool, wrappers

    if isinstance(env, wrappers.RecordedBatch | wrappers.RecordedBatchedEnv | pool.RecordedPool):
        return env
    # Vector envs first: before Gymnasium 1.0 they are envs too.
    if isinstance(env, gymnasium.vector.VectorEnv):
        return vector.wrapped(run, env, slot)
    if isinstance(env, gymnasium.Env):
        if count := wrappers.env_count(env):
            first = run.free_slots(count) if slot is None else slot
            return wrappers.RecordedBatchedEnv(env, run, first, count)
        return recorded.wrapped(run, env, slot)
    # An env of PettingZoo has imported it.
    if "pettingzoo" in sys.modules:
        from runspine.sdk.agents import wrappers as agents

        if (several := agents.wrapped(run, env, slot)) is not None:
            return several
    if count := pool.pool_count(env):
        return pool.RecordedPool(env, run, run.free_slots(count) if slot is None else slot, count)
    kind = f"{type(env).__module__}.{type(env).__qualname__}"
    raise TypeError(f"runspine.wrap takes an env of Gymnasium or PettingZoo, or a vector env, not {kind}")
