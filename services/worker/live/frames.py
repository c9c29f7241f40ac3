"""Frames of a trainer, scaled and encoded for viewers."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

from PIL import Image

from runspine.domain.defaults import MAX_SLOTS
from runspine.wire.v1.live_pb2 import Frame, Hud, KeyHint

MAX_FRAME_BYTES = 16 << 20
QUALITY = 80
# A picture that is too large for a message loses quality, then pixels, down to these.
MIN_QUALITY = 40
MIN_WIDTH = 32
# Share of the requested width that suffices.
MIN_WIDTH_SHARE = 0.9


class NotAFrameError(Exception):
    """The header that a trainer's process sent is not one of a frame."""


@dataclass(frozen=True, slots=True)
class RawFrame:
    """One frame of a slot as the trainer sent it, or why there is none."""

    slot: int
    width: int
    height: int
    at: float
    slots: int
    trouble: str
    hud: Hud
    # Four bytes a pixel in pygame's order, instead of red, green and blue.
    bgrx: bool = False
    data: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of the pixels."""
        return self.width * self.height * (4 if self.bgrx else 3)


def parse_header(header: Any) -> RawFrame:
    """Parse the header that precedes the pixels. Raises NotAFrameError: a trainer may send anything."""
    try:
        slot, width, height = int(header["slot"]), int(header["width"]), int(header["height"])
        slots, at = min(int(header["slots"]), MAX_SLOTS), float(header["at"])
        trouble, bgrx = str(header.get("trouble") or ""), bool(header.get("bgrx"))
        found = RawFrame(slot, width, height, at, slots, trouble, parse_hud(header["hud"]), bgrx)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise NotAFrameError(f"{type(error).__name__}: {error}") from error
    if not 0 <= slot < MAX_SLOTS or width < 0 or height < 0 or found.size > MAX_FRAME_BYTES or slots < 0:
        raise NotAFrameError(f"slot {slot} of {width} × {height} pixels")
    if not math.isfinite(at):
        raise NotAFrameError(f"drawn at {at}")
    return found


def parse_hud(fields: dict[str, Any]) -> Hud:
    """The fields by their names in Hud; others are left out."""
    known = {name: value for name, value in fields.items() if name in Hud.DESCRIPTOR.fields_by_name}
    keys = [KeyHint(key=str(each["key"]), action=str(each["action"])) for each in known.pop("keys", ())]
    return Hud(**known, keys=keys)


def encode_jpeg(frame: RawFrame, width: int, max_bytes: int) -> tuple[bytes, int, int]:
    """The picture as JPEG, within a width and a number of bytes; with its width and height."""
    order = "BGRX" if frame.bgrx else "RGB"
    image = Image.frombuffer("RGB", (frame.width, frame.height), frame.data, "raw", order, 0, 1)
    quality = QUALITY
    while True:
        image = scaled(image, width)
        out = io.BytesIO()
        image.save(out, "JPEG", quality=quality)
        if len(out.getvalue()) <= max_bytes or image.width <= MIN_WIDTH:
            return out.getvalue(), image.width, image.height
        if quality > MIN_QUALITY:
            quality -= 20
        else:
            width = image.width // 2


def scaled(image: Image.Image, width: int) -> Image.Image:
    """Scale to at most `width`: by an integer factor where that comes near, which is five times as fast."""
    if width >= image.width:
        return image
    whole = round(image.width / width)
    if image.width / whole < MIN_WIDTH_SHARE * width:
        whole -= 1
    if 1 < whole <= image.height:
        # Crop the remainder at the edges, so that every output pixel averages the same number of pixels.
        image = image.reduce(whole, (0, 0, image.width // whole * whole, image.height // whole * whole))
    if image.width <= width:
        return image
    height = max(1, round(image.height * width / image.width))
    return image.resize((width, height), Image.Resampling.BILINEAR)


def encode_frame(
    frame: RawFrame, run_id: str, attempt: int, number: int, width: int, max_bytes: int
) -> Frame:
    """The message to publish. Runs in a thread: encoding takes milliseconds."""
    picture, wide, high = encode_jpeg(frame, width, max_bytes) if frame.size else (b"", 0, 0)
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
