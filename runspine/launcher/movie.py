"""Where moviepy is missing: the one class of it that Gymnasium's RecordVideo needs, on PyAV.

moviepy asks for a Pillow of years ago, and so cannot be installed beside everything else.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

from runspine.launcher.standins import StandInFinder

CLIP = "moviepy.video.io.ImageSequenceClip"
PACKAGES = ("moviepy", "moviepy.video", "moviepy.video.io")


def install() -> None:
    """Last in line: an installed moviepy is used."""
    if importlib.util.find_spec("av") is not None:
        sys.meta_path.append(StandInFinder({**dict.fromkeys(PACKAGES, ModuleType), CLIP: _clip_module}))


def _clip_module(name: str) -> ModuleType:
    module = ModuleType(name)
    vars(module)["ImageSequenceClip"] = ImageSequenceClip
    return module


class ImageSequenceClip:
    def __init__(self, sequence: Sequence[Any], fps: float) -> None:
        self._frames = sequence
        self._fps = fps

    def write_videofile(self, filename: str, **_: Any) -> None:
        """As H.264 in the smallest common form; a file is there when it is whole."""
        import av

        first = even(self._frames[0])
        with av.open(filename, "w") as container:
            # Rates such as 29.97 are fractions to the encoder.
            rate = Fraction(self._fps).limit_denominator(1001)
            stream: Any = container.add_stream("h264", rate=rate, options={"preset": "veryfast", "crf": "23"})
            stream.height, stream.width = first.shape[:2]
            stream.pix_fmt = "yuv420p"
            for frame in self._frames:
                picture = av.VideoFrame.from_ndarray(even(frame), format="rgb24")
                container.mux(stream.encode(picture))
            container.mux(stream.encode())


def even(frame: Any) -> np.ndarray[Any, Any]:
    """Without a last odd row or column, which the encoder does not take."""
    pixels = np.asarray(frame, dtype=np.uint8)[:, :, :3]
    return np.ascontiguousarray(pixels[: pixels.shape[0] // 2 * 2, : pixels.shape[1] // 2 * 2])
