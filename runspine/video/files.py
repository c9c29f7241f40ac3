"""Writes images as video and image files: mp4 through PyAV, gif and png through Pillow.

A file appears under its name only when it is complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from runspine.errors import InvalidError, RunspineError
from runspine.video.h264 import open_video

Rate = Callable[[], int]
SUFFIXES = (".mp4", ".gif", ".png")
OPTIONS = {"preset": "veryfast", "crf": "20"}


@dataclass(frozen=True, slots=True)
class WrittenClip:
    """A file that was written."""

    path: Path
    frames: int
    width: int
    height: int
    fps: int
    bytes: int


def check_target(path: Path, size: tuple[int, int] | None) -> None:
    """Check the target before anything is drawn. Raises InvalidError."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidError(f"{path.name}: the suffix must be one of {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".mp4" and size and (size[0] % 2 or size[1] % 2):
        raise InvalidError(f"size {size[0]}x{size[1]}: mp4 takes even numbers only")
    if not path.absolute().parent.is_dir():
        raise InvalidError(f"{path}: there is no directory {path.absolute().parent}")


def write_clip(path: Path, images: Iterable[Image.Image], rate: Rate, title: str) -> WrittenClip:
    """Write all images as a video, or the last of them as an image. `rate` is called after the first."""
    counted = _CountedImages(images, even=path.suffix.lower() == ".mp4")
    write = {".mp4": _mp4, ".gif": _gif, ".png": _png}[path.suffix.lower()]
    with _complete(path) as part:
        write(part, counted, rate, title)
    if not counted.frames:
        raise RunspineError("there is no frame to write")
    return WrittenClip(path, counted.frames, *counted.size, rate(), path.stat().st_size)


class _CountedImages:
    """Iterates images at one size and counts them."""

    def __init__(self, images: Iterable[Image.Image], even: bool) -> None:
        self._images = images
        self._even = even
        self.frames = 0
        self.size = (0, 0)

    def __iter__(self) -> Iterator[Image.Image]:
        for image in self._images:
            if self._even:
                # The codec takes even sizes only: a last odd row or column is cropped.
                image = image.crop((0, 0, image.width & ~1, image.height & ~1))
            if not self.frames:
                self.size = image.size
            self.frames += 1
            # An env may change the size of its frames within an episode.
            yield image if image.size == self.size else image.resize(self.size)


def _mp4(path: Path, images: _CountedImages, rate: Rate, title: str) -> None:
    with open_video(path, lambda: Fraction(rate()), OPTIONS, title=title) as video:
        for image in images:
            video.write(np.asarray(image.convert("RGB")))


def _gif(path: Path, images: _CountedImages, rate: Rate, title: str) -> None:
    rest = (image.convert("RGB").quantize(128) for image in images)
    first = next(rest, None)
    if first is not None:
        # Times in a gif are hundredths of a second, and viewers slow down below two of them.
        duration = max(20, round(1000 / rate() / 10) * 10)
        first.save(
            path,
            "GIF",
            save_all=True,
            append_images=rest,
            duration=duration,
            loop=0,
            comment=title.encode()[:255],
        )


def _png(path: Path, images: _CountedImages, rate: Rate, title: str) -> None:
    from PIL.PngImagePlugin import PngInfo

    last = None
    for last in images:  # noqa: B007 - the last one is wanted
        pass
    if last is not None:
        text = PngInfo()
        text.add_itxt("Title", title)
        last.save(path, "PNG", pnginfo=text)


@contextlib.contextmanager
def _complete(path: Path) -> Iterator[Path]:
    # A name per process: two may write the same file.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        if part.exists():
            part.replace(path)
    except OSError as error:
        raise RunspineError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
