"""Faults of other tools' memory, tried on ours."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from runspine.video.clip import Frame, encode

EPISODES, FRAMES = 5, 200


def test_clips_of_many_episodes_hold_a_frame_at_a_time(tmp_path: Path) -> None:
    """Gymnasium#1377: RecordVideo kept the frames of every episode until the env was closed."""
    taken: list[weakref.ref[Frame]] = []
    most = 0

    def frames() -> Iterator[Frame]:
        nonlocal most
        for number in range(FRAMES):
            frame = np.full((64, 64, 3), number, np.uint8)
            taken.append(weakref.ref(frame))
            most = max(most, sum(each() is not None for each in taken[-FRAMES:]))
            yield frame

    # Nothing may be left to a collector that comes when it likes.
    gc.disable()
    try:
        for episode in range(EPISODES):
            assert encode(frames(), tmp_path / f"{episode}.mp4").frames == FRAMES
    finally:
        gc.enable()
    assert most <= 4
    assert not any(each() is not None for each in taken)
