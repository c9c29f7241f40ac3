"""Frames of an env that was made without a render mode: it is set for the one call of `render`."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

# Height × width × 3 bytes (RGB), or × 4 bytes (BGR and one unused) for a Surface.
Picture = np.ndarray[Any, Any]
RGB = "rgb_array"
# Envs whose frame may be their pygame surface.
OWN = "gymnasium.envs."
BGRX_MASKS = (0xFF0000, 0xFF00, 0xFF)
NOTHING: Picture = np.empty((0, 0, 3), np.uint8)
Render = Callable[[Any], Any]
# No windows: frames are read from memory. SDL would treat SIGTERM as a closed window.
HEADLESS = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    "SDL_NO_SIGNAL_HANDLERS": "1",
    "MUJOCO_GL": "egl",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}
# MuJoCo's flags for shadows and reflections, which take two thirds of the time without a GPU.
COSTLY_FLAGS = (0, 2)


class RenderError(Exception):
    """The env cannot be drawn; the message gives the reason."""


def draw_nothing() -> Picture:
    raise RenderError(
        "the envs of this vector env are out of reach: use SyncVectorEnv, or wrap each env inside"
    )


def drawing(env: Any) -> Callable[[], Picture]:
    """Return a function that draws the current state of the env. It does not keep the env alive."""
    found = weakref.ref(env.unwrapped)
    render: Render | None = None

    def draw() -> Picture:
        nonlocal render
        bare = found()
        if bare is None:
            raise RenderError("the env is gone")
        if render is None:
            picture = _drawn(bare, _usual)
            # The first frame is drawn both ways: an env may return more than a copy of its surface.
            render = surface_of if _same(bare, picture) else _usual
            return picture
        return _drawn(bare, render)

    return draw


def cheapen(bare: Any) -> None:
    """Turn off shadows and reflections of MuJoCo. Its viewer exists after the first frame."""
    scene = getattr(getattr(bare.mujoco_renderer, "viewer", None), "scn", None)
    if scene is not None:
        for flag in COSTLY_FLAGS:
            scene.flags[flag] = 0


def _usual(bare: Any) -> Any:
    return bare.render()


def _same(bare: Any, picture: Picture) -> bool:
    """Whether the surface that the env draws on equals its frame."""
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
        raise RenderError(f"{name} gave no picture but {_what(frame)}")
    return picture[:, :, :3]


def _mode(bare: Any) -> str | None:
    """Return the render mode of the env. Raises RenderError when it cannot return frames."""
    mode: str | None = getattr(bare, "render_mode", None)
    name = type(bare).__name__
    if mode == "human":
        raise RenderError(f"{name} draws in a window of its own: make it without render_mode='human'")
    modes = (getattr(bare, "metadata", None) or {}).get("render_modes") or []
    if RGB not in modes:
        raise RenderError(
            f"{name} draws no pictures; it knows {', '.join(map(str, modes)) or 'no render mode'}"
        )
    return mode


def _lent(bare: Any, render: Render) -> Any:
    """Render with the mode set for this call only: some envs compute differently with one (LunarLander)."""
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    before = bare.render_mode
    bare.render_mode = RGB
    try:
        return render(bare)
    finally:
        bare.render_mode = before


class Surface(np.ndarray[Any, Any]):
    """A frame that is a copy of the bytes of a pygame surface."""


def surface_of(bare: Any) -> Any:
    """Return the frame of the env; for Gymnasium's pygame envs, the bytes of their surface.

    Converting the surface to RGB takes two thirds of the time of a frame; here that is left to the encoder,
    which does not run on the training thread.
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
    # With several calls the frame was made of more than one surface.
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
