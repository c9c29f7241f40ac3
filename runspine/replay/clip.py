"""Films and pictures as files: mp4 through PyAV, gif and png through Pillow.

A file appears under its name only when it is whole.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from runspine.errors import Invalid, RunspineError

Rate = Callable[[], int]
SUFFIXES = (".mp4", ".gif", ".png")


@dataclass(frozen=True, slots=True)
class Clip:
    """A file that was written."""

    path: Path
    frames: int
    width: int
    height: int
    fps: int
    bytes: int


def check_target(path: Path, size: tuple[int, int] | None) -> None:
    """Raises Invalid before anything is drawn in vain."""
    if path.suffix.lower() not in SUFFIXES:
        raise Invalid(f"{path.name}: the ending says what is written, one of {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".mp4" and size and (size[0] % 2 or size[1] % 2):
        raise Invalid(f"size {size[0]}x{size[1]}: mp4 takes even numbers only")
    if not path.absolute().parent.is_dir():
        raise Invalid(f"{path}: there is no directory {path.absolute().parent}")


def write_clip(path: Path, images: Iterable[Image.Image], rate: Rate, about: str) -> Clip:
    """All images as a film, or the last of them as a picture. The rate is asked for after the first."""
    counted = _Counted(images, even=path.suffix.lower() == ".mp4")
    write = {".mp4": _mp4, ".gif": _gif, ".png": _png}[path.suffix.lower()]
    with _whole(path) as part:
        write(part, counted, rate, about)
    if not counted.frames:
        raise RunspineError("there is no frame to write")
    return Clip(path, counted.frames, *counted.size, rate(), path.stat().st_size)


class _Counted:
    """Images of one size, counted as they pass."""

    def __init__(self, images: Iterable[Image.Image], even: bool) -> None:
        self._images = images
        self._even = even
        self.frames = 0
        self.size = (0, 0)

    def __iter__(self) -> Iterator[Image.Image]:
        for image in self._images:
            if self._even:
                # A frame of odd size loses a row or column of pixels: the format has them in pairs.
                image = image.crop((0, 0, image.width & ~1, image.height & ~1))
            if not self.frames:
                self.size = image.size
            self.frames += 1
            # An env may change the size of its window in mid-film.
            yield image if image.size == self.size else image.resize(self.size)


def _mp4(path: Path, images: _Counted, rate: Rate, about: str) -> None:
    import av

    with av.open(str(path), "w", format="mp4") as film:
        film.metadata["title"] = about
        stream: Any = None
        for image in images:
            if stream is None:
                stream = film.add_stream("libx264", rate=Fraction(rate()))
                stream.width, stream.height, stream.pix_fmt = *image.size, "yuv420p"
                stream.options = {"preset": "veryfast", "crf": "20"}
            pixels = np.asarray(image.convert("RGB"))
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                film.mux(packet)
        if stream is not None:
            for packet in stream.encode():
                film.mux(packet)


def _gif(path: Path, images: _Counted, rate: Rate, about: str) -> None:
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
            comment=about.encode()[:255],
        )


def _png(path: Path, images: _Counted, rate: Rate, about: str) -> None:
    from PIL.PngImagePlugin import PngInfo

    last = None
    for last in images:  # noqa: B007 - the last one is wanted
        pass
    if last is not None:
        text = PngInfo()
        text.add_itxt("Title", about)
        last.save(path, "PNG", pnginfo=text)


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    # One of its own for each process: two may write the same file.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        if part.exists():
            part.replace(path)
    except OSError as error:
        raise RunspineError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
