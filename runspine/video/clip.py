"""Encodes frames as an MP4: the same frames give the same bytes. Needs PyAV and numpy."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runspine.video.h264 import YUV, open_video, padded_to_even

Frame = npt.NDArray[np.uint8]
DEFAULT_FRAMES = 200
DEFAULT_FPS = 30
# One thread and no dates in the file, so that the same frames give the same file.
OPTIONS = {"preset": "veryfast", "crf": "23", "threads": "1"}
CONTAINER = {"fflags": "+bitexact", "movflags": "+faststart"}


class VideoError(Exception):
    """The clip cannot be made; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip that was written."""

    path: Path
    frames: int
    width: int
    height: int
    fps: int
    # SHA-256 over the frames as they were rendered, before any compression.
    frames_sha256: str

    def meta(self) -> dict[str, Any]:
        """Metadata of the artifact."""
        return {
            "frames": self.frames,
            "width": self.width,
            "height": self.height,
            "fps": self.fps,
            "frames_sha256": self.frames_sha256,
        }


class FrameDigest:
    """SHA-256 over the sizes and pixels of frames."""

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
    frames: Iterable[Frame], path: Path, *, fps: int = DEFAULT_FPS, limit: int = DEFAULT_FRAMES
) -> Clip:
    """Write a clip of at most `limit` frames. Raises VideoError."""
    digest, size = FrameDigest(), (0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        clip_draft(path) as draft,
        open_video(draft, lambda: Fraction(fps), OPTIONS, container_options=CONTAINER) as video,
    ):
        for frame in itertools.islice(frames, limit):
            checked = _checked(frame)
            digest.add(checked)
            if digest.frames == 1:
                size = checked.shape[1], checked.shape[0]
            elif size != (checked.shape[1], checked.shape[0]):
                raise VideoError(f"the picture changed its size from {size} within the episode")
            video.write(_planes(padded_to_even(checked)), YUV)
        if not digest.frames:
            raise VideoError("there was no frame to show")
    return Clip(path, digest.frames, size[0], size[1], fps, digest.hexdigest())


@contextmanager
def clip_draft(path: Path) -> Iterator[Path]:
    """A file next to `path`, renamed to it when the block succeeds. Raises VideoError."""
    try:
        import av
    except ImportError as error:
        raise VideoError("PyAV is not installed: pip install 'runspine[replay]'") from error
    draft = path.with_name(f".{path.name}.part")
    try:
        yield draft
        draft.rename(path)
    except (av.FFmpegError, ValueError) as error:
        raise VideoError(f"the clip could not be encoded: {error}") from error
    finally:
        draft.unlink(missing_ok=True)


def decode(path: Path) -> Iterator[Frame]:
    """Yield the decoded frames of a clip."""
    import av

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)


def _checked(frame: Any) -> Frame:
    found = np.asarray(frame)
    if found.ndim != 3 or found.shape[2] != 3 or found.dtype != np.uint8:
        raise VideoError(f"the env's frames are {found.dtype}{list(found.shape)}, not RGB pictures of bytes")
    return found


def _planes(frame: Frame) -> Frame:
    """Convert RGB to the planes of YUV 4:2:0 by BT.601.

    The library's own conversion is not deterministic: it depends on the alignment of memory.
    """
    red, green, blue = (frame[:, :, n].astype(np.int32) for n in range(3))
    height, width = red.shape
    luma = (66 * red + 129 * green + 25 * blue + 128 >> 8) + 16
    sums = [part.reshape(height // 2, 2, width // 2, 2).sum(axis=(1, 3)) for part in (red, green, blue)]
    blues = (-38 * sums[0] - 74 * sums[1] + 112 * sums[2] + 512 >> 10) + 128
    reds = (112 * sums[0] - 94 * sums[1] - 18 * sums[2] + 512 >> 10) + 128
    rows = [luma.reshape(-1), blues.reshape(-1), reds.reshape(-1)]
    return np.concatenate(rows).astype(np.uint8).reshape(height * 3 // 2, width)
