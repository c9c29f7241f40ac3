"""Frames into an MP4, the same bytes for the same frames. Needs PyAV and numpy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Frame = npt.NDArray[np.uint8]
DEFAULT_FRAMES = 200
DEFAULT_FPS = 30
# One thread and no dates in the file: the same frames then give the same file.
OPTIONS = {"preset": "veryfast", "crf": "23", "threads": "1"}
CONTAINER = {"fflags": "+bitexact", "movflags": "+faststart"}


class NoVideo(Exception):
    """There is no clip; the message says why."""


@dataclass(frozen=True, slots=True)
class Clip:
    path: Path
    frames: int
    width: int
    height: int
    fps: int
    # SHA-256 over the frames as they were rendered, before any compression.
    frames_sha256: str

    def meta(self) -> dict[str, Any]:
        """For the artifact."""
        return {
            "frames": self.frames,
            "width": self.width,
            "height": self.height,
            "fps": self.fps,
            "frames_sha256": self.frames_sha256,
        }


class FrameDigest:
    """Sizes and pixels of frame after frame."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.frames = 0

    def add(self, frame: Frame) -> None:
        self._hash.update(repr(frame.shape).encode())
        self._hash.update(np.ascontiguousarray(frame).data)
        self.frames += 1

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def encode(
    frames: Iterable[Frame], path: Path, *, fps: int = DEFAULT_FPS, most: int = DEFAULT_FRAMES
) -> Clip:
    """Write a clip of at most so many frames. Raises NoVideo."""
    try:
        import av
    except ImportError as error:
        raise NoVideo("PyAV is not installed: pip install 'runspine[replay]'") from error
    digest, size = FrameDigest(), (0, 0)
    draft = path.with_name(f".{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with av.open(str(draft), "w", format="mp4", options=CONTAINER) as container:
            stream: Any = None
            for frame in _first(frames, most):
                checked = _checked(frame)
                digest.add(checked)
                if stream is None:
                    stream = _stream(container, checked, fps)
                    size = checked.shape[1], checked.shape[0]
                elif size != (checked.shape[1], checked.shape[0]):
                    raise NoVideo(f"the picture changed its size from {size} within the episode")
                picture = av.VideoFrame.from_ndarray(_planes(_even(checked)), format="yuv420p")
                container.mux(stream.encode(picture))
            if stream is None:
                raise NoVideo("there was no frame to show")
            container.mux(stream.encode())
        draft.rename(path)
    except (av.FFmpegError, ValueError) as error:
        raise NoVideo(f"the clip could not be encoded: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return Clip(path, digest.frames, size[0], size[1], fps, digest.hexdigest())


def decode(path: Path) -> Iterator[Frame]:
    """The frames of a clip as a viewer sees them."""
    import av

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)


def _stream(container: Any, frame: Frame, fps: int) -> Any:
    stream = container.add_stream("libx264", rate=Fraction(fps), options=OPTIONS)
    height, width = _even(frame).shape[:2]
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    return stream


def _first(frames: Iterable[Frame], most: int) -> Iterator[Frame]:
    for _, frame in zip(range(most), frames, strict=False):
        yield frame


def _checked(frame: Any) -> Frame:
    found = np.asarray(frame)
    if found.ndim != 3 or found.shape[2] != 3 or found.dtype != np.uint8:
        raise NoVideo(f"the env's frames are {found.dtype}{list(found.shape)}, not RGB pictures of bytes")
    return found


def _planes(frame: Frame) -> Frame:
    """Brightness of every pixel, and colour of every four, as BT.601 has them.

    By hand: the library's own conversion differs by a bit now and then, depending on where memory lies.
    """
    red, green, blue = (frame[:, :, n].astype(np.int32) for n in range(3))
    height, width = red.shape
    luma = (66 * red + 129 * green + 25 * blue + 128 >> 8) + 16
    sums = [part.reshape(height // 2, 2, width // 2, 2).sum(axis=(1, 3)) for part in (red, green, blue)]
    blues = (-38 * sums[0] - 74 * sums[1] + 112 * sums[2] + 512 >> 10) + 128
    reds = (112 * sums[0] - 94 * sums[1] - 18 * sums[2] + 512 >> 10) + 128
    rows = [luma.reshape(-1), blues.reshape(-1), reds.reshape(-1)]
    return np.concatenate(rows).astype(np.uint8).reshape(height * 3 // 2, width)


def _even(frame: Frame) -> Frame:
    """The codec takes even sizes: an odd edge is doubled."""
    height, width = frame.shape[:2]
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
