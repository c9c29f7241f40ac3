"""Makes Gymnasium 1.x behave like 0.29 for scripts written for it.

Without this such scripts silently lose every episode, or wait forever: since 1.0 an env that has ended is
reset in the next step, and the results of its last step have other names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

# Arguments of vector envs that were removed.
REMOVED = ("observation_space", "action_space")


class ApiTooNewError(Exception):
    """This Gymnasium cannot be made to behave like 0.29."""


def apply(gymnasium: Any) -> None:
    vector, wrappers = gymnasium.vector, gymnasium.wrappers
    if not hasattr(vector, "AutoresetMode"):
        raise ApiTooNewError(
            f"gymnasium {gymnasium.__version__} cannot reset in the same step: use 0.29.1, or 1.1 and newer"
        )
    mode = vector.AutoresetMode.SAME_STEP
    for kind in (vector.SyncVectorEnv, vector.AsyncVectorEnv):
        kind.__init__ = same_step_init(kind.__init__, mode)
    vector.SyncVectorEnv.step = with_old_infos(vector.SyncVectorEnv.step)
    vector.AsyncVectorEnv.step_wait = with_old_infos(vector.AsyncVectorEnv.step_wait)
    vector.VectorEnvWrapper = vector.VectorWrapper
    wrappers.TransformObservation.__init__ = space_optional(wrappers.TransformObservation.__init__)
    wrappers.ResizeObservation.__init__ = side_or_shape(wrappers.ResizeObservation.__init__)
    wrappers.AutoResetWrapper = wrappers.Autoreset
    wrappers.GrayScaleObservation = wrappers.GrayscaleObservation
    wrappers.FrameStack = frame_stack(wrappers.FrameStackObservation)


def same_step_init(init: Callable[..., None], mode: Any) -> Callable[..., None]:
    @functools.wraps(init)
    def begun(self: Any, env_fns: Any, *args: Any, **kwargs: Any) -> None:
        for name in REMOVED:
            kwargs.pop(name, None)
        if len(args) < _before_mode(init):
            kwargs.setdefault("autoreset_mode", mode)
        init(self, env_fns, *args, **kwargs)

    return begun


def _before_mode(init: Callable[..., None]) -> int:
    """How many positional arguments come before `autoreset_mode`."""
    names = init.__code__.co_varnames[2 : init.__code__.co_argcount]
    return names.index("autoreset_mode")


def with_old_infos(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def stepped(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = step(self, *args, **kwargs)
        infos = result[4]
        if "final_obs" in infos:
            infos["final_observation"], infos["_final_observation"] = infos["final_obs"], infos["_final_obs"]
            infos["final_info"] = each_info(infos["final_info"], infos["_final_info"])
        return result

    return stepped


def each_info(batched: dict[str, Any], ended: Any) -> Any:
    """One dict for each env that has ended, None for the others."""
    infos = np.full(len(ended), None, dtype=object)
    for index in np.flatnonzero(ended):
        infos[index] = info_of(batched, int(index))
    return infos


def info_of(batched: dict[str, Any], index: int) -> dict[str, Any]:
    return {
        key: info_of(values, index) if isinstance(values, dict) else values[index]
        for key, values in batched.items()
        if f"_{key}" in batched and batched[f"_{key}"][index]
    }


def space_optional(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def begun(self: Any, env: Any, f: Any = None, observation_space: Any = None, **kwargs: Any) -> None:
        func = kwargs.pop("func", f)
        init(self, env, func, observation_space, **kwargs)

    return begun


def side_or_shape(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def begun(self: Any, env: Any, shape: Any) -> None:
        init(self, env, (shape, shape) if isinstance(shape, int) else tuple(shape))

    return begun


def frame_stack(stacked: Any) -> Any:
    class FrameStack(stacked):  # type: ignore[misc]
        def __init__(self, env: Any, num_stack: int, lz4_compress: bool = False) -> None:
            super().__init__(env, num_stack)

    return FrameStack
