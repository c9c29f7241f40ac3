"""Films an episode by replaying it in an env that draws. Needs gymnasium."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runspine.replay.camera import Camera, FrameError
from runspine.sdk.drawing import HEADLESS, RGB
from runspine.sdk.episode_start import EpisodeStart, begin
from runspine.video.clip import Clip, Frame, VideoError, encode


def film(
    env_id: str,
    kwargs: dict[str, Any],
    how: EpisodeStart,
    actions: Sequence[Any],
    path: Path,
    *,
    limit: int,
    resets: int = 0,
) -> Clip:
    """Write a clip of at most `limit` frames, the first one before any action. Raises VideoError.

    `resets` is the number of resets before, for envs that keep state across episodes.
    """
    env = make_env(env_id, kwargs)
    try:
        camera = Camera(env, env_id)
        return encode(_frames(env, camera, how, actions, resets), path, fps=camera.fps, limit=limit)
    except FrameError as error:
        raise VideoError(str(error)) from error
    finally:
        env.close()


def make_env(env_id: str, kwargs: dict[str, Any]) -> Any:
    """Make an env that draws. Raises VideoError."""
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    import gymnasium

    try:
        return gymnasium.make(env_id, **{**kwargs, "render_mode": RGB})
    # An env may raise anything: that is then the reason why there is no clip.
    except Exception as error:
        raise VideoError(f"{env_id} cannot be made for pictures: {type(error).__name__}: {error}") from error


def _frames(
    env: Any, camera: Camera, how: EpisodeStart, actions: Sequence[Any], resets: int
) -> Iterator[Frame]:
    begin(env, how, resets)
    yield camera.take()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        yield camera.take()
        if terminated or truncated:
            return
