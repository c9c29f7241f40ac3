"""Chooses the wrapper of an env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runspine.sdk.run import Run


def wrapped(run: Run, env: Any, slot: int | None) -> Any:
    """Return the env with recording. Raises TypeError when it is not a Gymnasium env."""
    import gymnasium

    from runspine.sdk import recorded, vector
    from runspine.sdk.batch import wrappers

    if isinstance(env, wrappers.RecordedBatch | wrappers.RecordedBatchedEnv):
        return env
    # Vector envs first: before Gymnasium 1.0 they are envs too.
    if isinstance(env, gymnasium.vector.VectorEnv):
        return vector.wrapped(run, env, slot)
    if isinstance(env, gymnasium.Env):
        if count := wrappers.env_count(env):
            first = run.free_slots(count) if slot is None else slot
            return wrappers.RecordedBatchedEnv(env, run, first, count)
        return recorded.wrapped(run, env, slot)
    kind = f"{type(env).__module__}.{type(env).__qualname__}"
    raise TypeError(f"runspine.wrap takes a gymnasium.Env or gymnasium.vector.VectorEnv, not {kind}")
