"""A frame as the trainer sent it, made small enough to be sent to people."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

from PIL import Image

from runspine.wire.v1.live_pb2 import Frame, Hud, KeyHint

MOST_BYTES = 16 << 20
MOST_SLOTS = 64
QUALITY = 80
# When a picture is too large for a message: less quality, then fewer pixels, down to this.
LEAST_QUALITY = 40
LEAST_WIDTH = 32
# How much of the wanted width is enough.
NEAR = 0.9


class NotAFrame(Exception):
    """The trainer's process sent something else."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One frame of a slot, or why there is none, from the trainer's process."""

    slot: int
    width: int
    height: int
    at: float
    slots: int
    trouble: str
    hud: Hud
    # Four bytes a pixel as pygame holds them, instead of red, green and blue.
    bgrx: bool = False
    data: bytes = b""

    @property
    def size(self) -> int:
        return self.width * self.height * (4 if self.bgrx else 3)


def shown(header: Any) -> Shown:
    """What the line before the bytes says. Raises NotAFrame: a trainer may send anything."""
    try:
        slot, width, height = int(header["slot"]), int(header["width"]), int(header["height"])
        slots, at = min(int(header["slots"]), MOST_SLOTS), float(header["at"])
        trouble, bgrx = str(header.get("trouble") or ""), bool(header.get("bgrx"))
        found = Shown(slot, width, height, at, slots, trouble, hud_of(header["hud"]), bgrx)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise NotAFrame(f"{type(error).__name__}: {error}") from error
    if not 0 <= slot < MOST_SLOTS or width < 0 or height < 0 or found.size > MOST_BYTES or slots < 0:
        raise NotAFrame(f"slot {slot} of {width} × {height} pixels")
    if not math.isfinite(at):
        raise NotAFrame(f"drawn at {at}")
    return found


def hud_of(said: dict[str, Any]) -> Hud:
    """By the names of Hud; names that it does not have are left out."""
    known = {name: value for name, value in said.items() if name in Hud.DESCRIPTOR.fields_by_name}
    keys = [KeyHint(key=str(each["key"]), action=str(each["action"])) for each in known.pop("keys", ())]
    return Hud(**known, keys=keys)


def jpeg(frame: Shown, width: int, most: int) -> tuple[bytes, int, int]:
    """The picture, at most so wide and so many bytes; with its width and height."""
    order = "BGRX" if frame.bgrx else "RGB"
    image = Image.frombuffer("RGB", (frame.width, frame.height), frame.data, "raw", order, 0, 1)
    quality = QUALITY
    while True:
        image = scaled(image, width)
        out = io.BytesIO()
        image.save(out, "JPEG", quality=quality)
        if out.tell() <= most or image.width <= LEAST_WIDTH:
            return out.getvalue(), image.width, image.height
        if quality > LEAST_QUALITY:
            quality -= 20
        else:
            width = image.width // 2


def scaled(image: Image.Image, width: int) -> Image.Image:
    """At most so wide, and not much less: by whole pixels where that comes near, five times as fast."""
    if width >= image.width:
        return image
    whole = round(image.width / width)
    if image.width / whole < NEAR * width:
        whole -= 1
    if 1 < whole <= image.height:
        # Without what is left over at the edges: no row there is made of fewer pixels.
        image = image.reduce(whole, (0, 0, image.width // whole * whole, image.height // whole * whole))
    if image.width <= width:
        return image
    height = max(1, round(image.height * width / image.width))
    return image.resize((width, height), Image.Resampling.BILINEAR)


def framed(frame: Shown, run_id: str, attempt: int, number: int, width: int, most: int) -> Frame:
    """As it goes out. In a thread: encoding takes milliseconds."""
    picture, wide, high = jpeg(frame, width, most) if frame.size else (b"", 0, 0)
    return Frame(
        run_id=run_id,
        attempt=attempt,
        slot=frame.slot,
        number=number,
        at=int(frame.at * 1e6),
        width=wide,
        height=high,
        jpeg=picture,
        hud=frame.hud,
        trouble=frame.trouble,
        slots=frame.slots,
    )
