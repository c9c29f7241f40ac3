"""Films a recorded episode from its telemetry: replayed, verified and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from runspine.replay import EnvMissingError, EpisodeRecord, Replay
from runspine.replay.camera import FrameError
from runspine.replay.film import Film, filmed
from runspine.video.clip import DEFAULT_FRAMES, Clip, Frame, VideoError, encode


def rebuild(record: EpisodeRecord, path: Path, *, limit: int = DEFAULT_FRAMES) -> Clip:
    """Write a clip of an episode, of at most `limit` frames.

    Raises VideoError, also when the replay diverges.
    """
    replay = Replay(record)
    try:
        if (divergence := replay.verdict.divergence) is not None:
            raise VideoError(f"episode {record.id} does not come out as it was recorded: {divergence}")
        film = filmed(replay)
        frames = _frames(film)
        first = next(frames, None)
        if first is None or film.source != "env":
            raise VideoError(f"{record.env.env_id} draws no frames")
        return encode(_with(first, frames), path, fps=film.fps, limit=limit)
    except (EnvMissingError, FrameError) as error:
        raise VideoError(str(error)) from error


def _frames(film: Film) -> Iterator[Frame]:
    for shot in film.shots:
        yield np.asarray(shot.image.convert("RGB"), np.uint8)


def _with(first: Frame, rest: Iterator[Frame]) -> Iterator[Frame]:
    yield first
    yield from rest
