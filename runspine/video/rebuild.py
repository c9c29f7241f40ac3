"""A clip again from telemetry: the recorded episode is played once more, proven, and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from runspine.replay import NoEnv, Record, Replay
from runspine.replay.camera import NoFrame
from runspine.replay.film import Film, filmed
from runspine.video.clip import DEFAULT_FRAMES, Clip, Frame, NoVideo, encode


def rebuild(record: Record, path: Path, *, most: int = DEFAULT_FRAMES) -> Clip:
    """The clip of an episode, of at most so many frames. Raises NoVideo, also when it comes out otherwise."""
    replay = Replay(record)
    try:
        if (divergence := replay.verdict.divergence) is not None:
            raise NoVideo(f"episode {record.id} does not come out as it was recorded: {divergence}")
        film = filmed(replay)
        frames = _frames(film)
        first = next(frames, None)
        if first is None or film.source != "env":
            raise NoVideo(f"{record.env.env_id} draws no frames")
        return encode(_with(first, frames), path, fps=film.fps, most=most)
    except (NoEnv, NoFrame) as error:
        raise NoVideo(str(error)) from error


def _frames(film: Film) -> Iterator[Frame]:
    for shot in film.shots:
        yield np.asarray(shot.image.convert("RGB"), np.uint8)


def _with(first: Frame, rest: Iterator[Frame]) -> Iterator[Frame]:
    yield first
    yield from rest
