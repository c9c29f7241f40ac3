"""A picture of an env that was made for learning: it is lent a render mode for the one call."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

Picture = np.ndarray[Any, Any]
RGB = "rgb_array"
# Nobody looks at a window: frames are taken from memory. SDL would take SIGTERM for a closed window.
HEADLESS = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    "SDL_NO_SIGNAL_HANDLERS": "1",
    "MUJOCO_GL": "egl",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}
# MuJoCo's numbers for shadows and reflections, which cost two thirds of the time without a GPU.
DEAR_FLAGS = (0, 2)


class NotDrawn(Exception):
    """There is no picture of this env; the message says why."""


def draw_nothing() -> Picture:
    raise NotDrawn("the envs of this vector env are out of reach: use SyncVectorEnv, or wrap each env inside")


def drawing(env: Any) -> Callable[[], Picture]:
    """A function that draws the env as it stands. It does not keep the env alive."""
    found = weakref.ref(env.unwrapped)

    def draw() -> Picture:
        bare = found()
        if bare is None:
            raise NotDrawn("the env is gone")
        return _drawn(bare)

    return draw


def cheapen(bare: Any) -> None:
    """Leave out what makes MuJoCo's pictures dear. Its viewer exists after the first one."""
    scene = getattr(getattr(bare.mujoco_renderer, "viewer", None), "scn", None)
    if scene is not None:
        for flag in DEAR_FLAGS:
            scene.flags[flag] = 0


def _drawn(bare: Any) -> Picture:
    mode, name = _mode(bare), type(bare).__name__
    frame = bare.render() if mode == RGB else _lent(bare)
    if hasattr(bare, "mujoco_renderer"):
        cheapen(bare)
    picture: Picture = np.asarray(frame)
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] not in (3, 4) or not picture.size:
        raise NotDrawn(f"{name} gave no picture but {_what(frame)}")
    return picture[:, :, :3]


def _mode(bare: Any) -> str | None:
    """How it draws now. Raises NotDrawn when it never gives pictures."""
    mode: str | None = getattr(bare, "render_mode", None)
    name = type(bare).__name__
    if mode == "human":
        raise NotDrawn(f"{name} draws in a window of its own: make it without render_mode='human'")
    modes = (getattr(bare, "metadata", None) or {}).get("render_modes") or []
    if RGB not in modes:
        raise NotDrawn(f"{name} draws no pictures; it knows {', '.join(map(str, modes)) or 'no render mode'}")
    return mode


def _lent(bare: Any) -> Any:
    """An env that knows all the time that it is seen may compute otherwise (LunarLander: its sparks)."""
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    before = bare.render_mode
    bare.render_mode = RGB
    try:
        return bare.render()
    finally:
        bare.render_mode = before


def _what(frame: Any) -> str:
    if isinstance(frame, np.ndarray):
        return f"an array of {frame.dtype} and shape {frame.shape}"
    return "nothing" if frame is None else f"a {type(frame).__name__}"
