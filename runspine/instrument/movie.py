"""A stand-in for moviepy: the one class that Gymnasium's RecordVideo needs, on PyAV.

moviepy requires an old version of Pillow, which conflicts with other packages.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

from runspine.instrument.standins import StandInFinder
from runspine.video.h264 import cropped_to_even, open_video

CLIP = "moviepy.video.io.ImageSequenceClip"
PACKAGES = ("moviepy", "moviepy.video", "moviepy.video.io")
OPTIONS = {"preset": "veryfast", "crf": "23"}


def install() -> None:
    """Add the stand-in as the last finder: an installed moviepy takes precedence."""
    if importlib.util.find_spec("av") is not None:
        sys.meta_path.append(StandInFinder({**dict.fromkeys(PACKAGES, ModuleType), CLIP: _clip_module}))


def _clip_module(name: str) -> ModuleType:
    module = ModuleType(name)
    vars(module)["ImageSequenceClip"] = ImageSequenceClip
    return module


class ImageSequenceClip:
    """The class of moviepy that RecordVideo uses."""

    def __init__(self, sequence: Sequence[Any], fps: float) -> None:
        self._frames = sequence
        self._fps = fps

    def write_videofile(self, filename: str, **_: Any) -> None:
        """Write the frames as H.264; frames of odd size lose a row or column."""
        with open_video(filename, self._rate, OPTIONS, file_format=None) as video:
            for frame in self._frames:
                pixels = np.asarray(frame, dtype=np.uint8)[:, :, :3]
                video.write(np.ascontiguousarray(cropped_to_even(pixels)))

    def _rate(self) -> Fraction:
        # Rates such as 29.97 are fractions to the encoder.
        return Fraction(self._fps).limit_denominator(1001)
