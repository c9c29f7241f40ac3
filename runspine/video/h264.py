"""H.264 encoding through PyAV: the one place that opens a video file for writing.

Imports nothing but numpy until a file is opened: the launcher uses it in the Python of a user's script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

CODEC = "libx264"
RGB, YUV = "rgb24", "yuv420p"
Rate = Callable[[], Fraction]


class H264Writer:
    """Encodes frames of one size. The stream is added with the first frame."""

    def __init__(
        self, container: Any, rate: Rate, options: Mapping[str, str], time_base: Fraction | None = None
    ) -> None:
        self._container, self._rate, self._options = container, rate, dict(options)
        self._time_base = time_base
        self._stream: Any = None

    def write(self, pixels: np.ndarray[Any, Any], pixel_format: str = RGB, pts: int | None = None) -> None:
        """Encode a frame of even height and width; `pts` is its time in units of `time_base`."""
        import av

        frame = av.VideoFrame.from_ndarray(pixels, format=pixel_format)
        if self._stream is None:
            self._stream = self._add_stream(frame.width, frame.height)
        if pts is not None and self._time_base is not None:
            frame.pts, frame.time_base = pts, self._time_base
        self._container.mux(self._stream.encode(frame))

    def flush(self) -> None:
        """Encode the frames that the codec still holds."""
        if self._stream is not None:
            self._container.mux(self._stream.encode())

    def _add_stream(self, width: int, height: int) -> Any:
        stream = self._container.add_stream(CODEC, rate=self._rate(), options=self._options)
        stream.width, stream.height, stream.pix_fmt = width, height, YUV
        if self._time_base is not None:
            stream.codec_context.time_base = self._time_base
        return stream


@contextmanager
def open_video(
    path: str | Path,
    rate: Rate,
    options: Mapping[str, str],
    *,
    file_format: str | None = "mp4",
    container_options: Mapping[str, str] | None = None,
    time_base: Fraction | None = None,
    title: str = "",
) -> Iterator[H264Writer]:
    """Write a video file; complete when the block ends. `rate` is called with the first frame.

    `options` are those of the codec. Without `file_format`, the file's name decides.
    """
    import av

    with av.open(str(path), "w", format=file_format, options=dict(container_options or {})) as container:
        if title:
            container.metadata["title"] = title
        writer = H264Writer(container, rate, options, time_base)
        yield writer
        writer.flush()


def cropped_to_even(frame: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Without a last odd row or column: the codec takes even sizes only."""
    return frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]


def padded_to_even(frame: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """With a last odd row or column doubled: the codec takes even sizes only."""
    height, width = frame.shape[:2]
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
