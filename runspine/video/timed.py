"""Encodes live frames as an MP4, each shown at the time it was received. Fast rather than small."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from runspine.video.clip import Clip, Frame, FrameDigest, VideoError, clip_draft
from runspine.video.h264 import cropped_to_even, open_video

# Milliseconds.
TIME_BASE = Fraction(1, 1000)
OPTIONS = {"preset": "ultrafast", "crf": "23", "threads": "1"}
CONTAINER = {"movflags": "+faststart"}


def encode_timed(frames: Iterable[tuple[float, Frame]], path: Path, *, fps: int) -> Clip:
    """Write a clip of frames of one size and the seconds at which each was received. Raises VideoError."""
    digest, size, last = FrameDigest(), (0, 0), -1
    with (
        clip_draft(path) as draft,
        open_video(
            draft, lambda: Fraction(fps), OPTIONS, container_options=CONTAINER, time_base=TIME_BASE
        ) as video,
    ):
        for seconds, frame in frames:
            even = cropped_to_even(frame)
            if not digest.frames:
                size = even.shape[1], even.shape[0]
            last = max(last + 1, round(seconds / TIME_BASE))
            digest.add(even)
            video.write(even, pts=last)
        if not digest.frames:
            raise VideoError("there was no frame to show")
    return Clip(path, digest.frames, *size, fps, digest.hexdigest())
