"""A picture of an env that was made for learning: it is lent a render mode for the one call."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

# Height × width × 3 bytes of red, green and blue; of a Surface four: blue, green, red and one unused.
Picture = np.ndarray[Any, Any]
RGB = "rgb_array"
# Envs whose picture may be a pygame surface as it is.
OWN = "gymnasium.envs."
BGRX_MASKS = (0xFF0000, 0xFF00, 0xFF)
NOTHING: Picture = np.empty((0, 0, 3), np.uint8)
Render = Callable[[Any], Any]
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
    render: Render | None = None

    def draw() -> Picture:
        nonlocal render
        bare = found()
        if bare is None:
            raise NotDrawn("the env is gone")
        if render is None:
            picture = _drawn(bare, _usual)
            # The first one is drawn both ways: an env may make more of its surface than a copy.
            render = surface_of if _same(bare, picture) else _usual
            return picture
        return _drawn(bare, render)

    return draw


def cheapen(bare: Any) -> None:
    """Leave out what makes MuJoCo's pictures dear. Its viewer exists after the first one."""
    scene = getattr(getattr(bare.mujoco_renderer, "viewer", None), "scn", None)
    if scene is not None:
        for flag in DEAR_FLAGS:
            scene.flags[flag] = 0


def _usual(bare: Any) -> Any:
    return bare.render()


def _same(bare: Any, picture: Picture) -> bool:
    """Whether the surface that the env draws on is its picture."""
    other = _drawn(bare, surface_of)
    return isinstance(other, Surface) and np.array_equal(other[:, :, 2::-1], picture)


def _drawn(bare: Any, render: Render) -> Picture:
    mode, name = _mode(bare), type(bare).__name__
    frame = render(bare) if mode == RGB else _lent(bare, render)
    if hasattr(bare, "mujoco_renderer"):
        cheapen(bare)
    if isinstance(frame, Surface):
        return frame
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


def _lent(bare: Any, render: Render) -> Any:
    """An env that knows all the time that it is seen may compute otherwise (LunarLander: its sparks)."""
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    before = bare.render_mode
    bare.render_mode = RGB
    try:
        return render(bare)
    finally:
        bare.render_mode = before


class Surface(np.ndarray[Any, Any]):
    """A picture that is a copy of pygame's own bytes."""


def surface_of(bare: Any) -> Any:
    """What the env draws; of Gymnasium's own envs with pygame, the bytes of their surface.

    They turn it into numpy's order themselves, which takes two thirds of a picture's time; here that is
    left to whoever encodes it, off the training thread.
    """
    arrays = getattr(sys.modules.get("pygame"), "surfarray", None)
    if arrays is None or not type(bare).__module__.startswith(OWN):
        return bare.render()
    real, thread, held = arrays.pixels3d, threading.get_ident(), []

    def hold(surface: Any) -> Any:
        if threading.get_ident() != thread:
            return real(surface)
        held.append(surface)
        return NOTHING

    arrays.pixels3d = hold
    try:
        frame = bare.render()
    finally:
        arrays.pixels3d = real
    if not held:
        return frame
    # Asked for more than once, it is not the picture alone that was made of them.
    return _taken(held[0], real) if len(held) == 1 else bare.render()


def _taken(surface: Any, pixels: Callable[[Any], Any]) -> Any:
    (width, height), pitch = surface.get_size(), surface.get_pitch()
    if surface.get_bitsize() != 32 or surface.get_masks()[:3] != BGRX_MASKS or pitch % 4:
        return np.transpose(np.array(pixels(surface)), axes=(1, 0, 2))
    rows = np.frombuffer(surface.get_buffer().raw, np.uint8).reshape(height, pitch // 4, 4)
    return rows[:, :width].view(Surface)


def _what(frame: Any) -> str:
    if isinstance(frame, np.ndarray):
        return f"an array of {frame.dtype} and shape {frame.shape}"
    return "nothing" if frame is None else f"a {type(frame).__name__}"
