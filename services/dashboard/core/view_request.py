"""What browsers request of a run's live frames, and the interest that their requests add up to. Pure."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runspine.domain.defaults import DEFAULT_WIDTH, MAX_FPS, MAX_SLOTS, MAX_WIDTH, MIN_FPS, MIN_WIDTH
from runspine.wire.v1.live_pb2 import EvaluatedBatch, Frame, Interest


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """Frame rate, width in pixels and slots that one browser wants."""

    fps: float = 15.0
    width: int = DEFAULT_WIDTH
    # All when empty.
    slots: frozenset[int] = frozenset()

    def includes(self, slot: int) -> bool:
        return not self.slots or slot in self.slots


def parse_browser_request(message: Any) -> BrowserRequest:
    """Parse a browser's request and clamp it to the limits. Raises ValueError when it is malformed."""
    try:
        fps, width = float(message["fps"]), int(message["width"])
        slots = frozenset(int(slot) for slot in message.get("slots") or ())
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a request for frames: {str(message)[:100]}") from error
    if not math.isfinite(fps) or any(not 0 <= slot < MAX_SLOTS for slot in slots):
        raise ValueError(f"not a request for frames: {str(message)[:100]}")
    return BrowserRequest(min(MAX_FPS, max(MIN_FPS, fps)), min(MAX_WIDTH, max(MIN_WIDTH, width)), slots)


def combined_interest(viewer: str, requests: Iterable[BrowserRequest]) -> Interest:
    """The maximum over all requests; without any, the interest reports the viewer as gone."""
    several = list(requests)
    if not several:
        return Interest(viewer=viewer, gone=True)
    some_slots = all(request.slots for request in several)
    slots = sorted({slot for request in several for slot in request.slots}) if some_slots else []
    fps, width = max(request.fps for request in several), max(request.width for request in several)
    return Interest(viewer=viewer, fps=fps, width=width, slots=slots)


def pack_frame(frame: Frame) -> bytes:
    """A frame as browsers receive it: header length (uint32, little endian), header as JSON, JPEG."""
    hud = frame.hud
    header = {
        "slot": frame.slot,
        "slots": frame.slots,
        "number": frame.number,
        "attempt": frame.attempt,
        "at": frame.at,
        "width": frame.width,
        "height": frame.height,
        "trouble": frame.trouble,
        "hud": {
            "step": hud.step,
            "episode": hud.episode_id,
            "episode_step": hud.episode_step,
            "episode_return": _finite(hud.episode_return),
            "rate": _finite(hud.steps_per_second),
            "batch": hud.batch,
            "evaluated": _evaluated(hud.evaluated) if hud.HasField("evaluated") else None,
            "actor": hud.actor,
            "waiting": hud.waiting,
            "notice": hud.notice,
            "input": hud.input,
            "turn_based": hud.turn_based,
            "paused": hud.paused,
            "pace": _finite(hud.pace),
            "keys": [{"key": each.key, "action": each.action} for each in hud.keys],
        },
    }
    encoded = json.dumps(header).encode()
    return struct.pack("<I", len(encoded)) + encoded + frame.jpeg


def _evaluated(batch: EvaluatedBatch) -> dict[str, float | None]:
    figures = {"avg": batch.mean, "min": batch.minimum, "max": batch.maximum}
    return {
        "number": batch.number,
        "episodes": batch.episodes,
        **{name: _finite(value) for name, value in figures.items()},
    }


def _finite(value: float) -> float | None:
    """The value where JSON has one for it."""
    return value if math.isfinite(value) else None
