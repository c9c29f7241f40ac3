"""Takes frames of an env, as arrays. One env draws at a time: MuJoCo's contexts disturb each other."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from runspine.errors import RunspineError
from runspine.sdk.drawing import RGB, cheapen

Frame = np.ndarray[Any, Any]


class FrameError(RunspineError):
    """The env draws no frame, or a black one."""


class Camera:
    """Takes frames of an env. Raises FrameError.

    An env made without a render mode has one only while it draws: some envs compute differently with
    a render mode.
    """

    def __init__(self, env: Any, name: str) -> None:
        self._env = env
        self._bare = env.unwrapped
        self._name = name
        self._switch = self._bare.render_mode is None
        self._mujoco = hasattr(self._bare, "mujoco_renderer")
        self._cheapened = False
        # Whether any frame was not black: some envs begin with black frames.
        self.lit = False
        modes = (env.metadata or {}).get("render_modes") or []
        if RGB not in modes:
            raise FrameError(
                f"{name} draws no frames; it knows {', '.join(map(str, modes)) or 'no render mode'}"
            )

    @property
    def fps(self) -> int:
        rate = (self._env.metadata or {}).get("render_fps") or 30
        return max(1, round(float(rate)))

    def take(self) -> Frame:
        frame = self._draw()
        if not frame.any() and self._mujoco:
            # Another viewer was collected while ours drew: collect all of them, and draw again.
            gc.collect()
            frame = self._draw()
            if not frame.any():
                raise FrameError(
                    f"{self._name} drew a black frame twice: another renderer is in this process"
                )
        self.lit = self.lit or bool(frame.any())
        return frame

    def _draw(self) -> Frame:
        try:
            frame = self._render()
        except Exception as error:
            raise FrameError(f"{self._name} draws no frame: {type(error).__name__}: {error}") from error
        if frame is None:
            raise FrameError(f"{self._name} gave no frame")
        drawn = np.asarray(frame)
        if drawn.ndim != 3 or drawn.shape[2] not in (3, 4):
            raise FrameError(f"{self._name} gave a frame of shape {drawn.shape}")
        return np.ascontiguousarray(drawn[:, :, :3], np.uint8)

    def _render(self) -> Any:
        if self._switch:
            self._bare.render_mode = RGB
        try:
            if self._mujoco and not self._cheapened:
                # The first frame makes the viewer, and is discarded.
                self._bare.render()
                self._cheapened = True
                cheapen(self._bare)
            return self._bare.render() if self._switch else self._env.render()
        finally:
            if self._switch:
                self._bare.render_mode = None
