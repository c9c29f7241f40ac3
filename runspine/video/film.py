"""An episode played again for the camera: same env, same beginning, same actions. Needs gymnasium."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runspine.replay.camera import Camera, NoFrame
from runspine.sdk.beginning import Beginning, begin
from runspine.sdk.drawing import HEADLESS, RGB
from runspine.video.clip import Clip, Frame, NoVideo, encode


def film(
    env_id: str,
    kwargs: dict[str, Any],
    how: Beginning,
    actions: Sequence[Any],
    path: Path,
    *,
    most: int,
    resets: int = 0,
) -> Clip:
    """A clip of at most so many frames, the first one before any action. Raises NoVideo.

    `resets` are made before, for envs that carry something over from one episode to the next.
    """
    env = make_env(env_id, kwargs)
    try:
        camera = Camera(env, env_id)
        return encode(_frames(env, camera, how, actions, resets), path, fps=camera.fps, most=most)
    except NoFrame as error:
        raise NoVideo(str(error)) from error
    finally:
        env.close()


def make_env(env_id: str, kwargs: dict[str, Any]) -> Any:
    """An env that draws. Raises NoVideo."""
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    import gymnasium

    try:
        return gymnasium.make(env_id, **{**kwargs, "render_mode": RGB})
    # An env is somebody else's code: whatever it raises is the reason why there is no clip.
    except Exception as error:
        raise NoVideo(f"{env_id} cannot be made for pictures: {type(error).__name__}: {error}") from error


def _frames(env: Any, camera: Camera, how: Beginning, actions: Sequence[Any], resets: int) -> Iterator[Frame]:
    begin(env, how, resets)
    yield camera.take()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        yield camera.take()
        if terminated or truncated:
            return
