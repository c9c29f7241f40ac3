"""What browsers want to see of a run, one and all together. Pure."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runspine.wire.v1.live_pb2 import Frame, Interest

SLOWEST, FASTEST, NARROWEST, WIDEST, MOST_SLOTS = 1.0, 30.0, 64, 1280, 64


@dataclass(frozen=True, slots=True)
class Wish:
    fps: float = 15.0
    width: int = 320
    # All when empty.
    slots: frozenset[int] = frozenset()

    def includes(self, slot: int) -> bool:
        return not self.slots or slot in self.slots


def wish_of(said: Any) -> Wish:
    """What a page says, within what is possible. Raises ValueError on anything else."""
    try:
        fps, width = float(said["fps"]), int(said["width"])
        slots = frozenset(int(slot) for slot in said.get("slots") or ())
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a wish: {str(said)[:100]}") from error
    if not math.isfinite(fps) or any(not 0 <= slot < MOST_SLOTS for slot in slots):
        raise ValueError(f"not a wish: {str(said)[:100]}")
    return Wish(min(FASTEST, max(SLOWEST, fps)), min(WIDEST, max(NARROWEST, width)), slots)


def together(viewer: str, wishes: Iterable[Wish]) -> Interest:
    """The most that any of them wants; the viewer is gone when there are none."""
    several = list(wishes)
    if not several:
        return Interest(viewer=viewer, gone=True)
    slots = sorted({slot for wish in several for slot in wish.slots}) if all(w.slots for w in several) else []
    fps, width = max(wish.fps for wish in several), max(wish.width for wish in several)
    return Interest(viewer=viewer, fps=fps, width=width, slots=slots)


def packed(frame: Frame) -> bytes:
    """As a page takes it: the length of what stands beside the picture, that as JSON, the picture."""
    hud = frame.hud
    beside = {
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
            "episode_return": hud.episode_return if math.isfinite(hud.episode_return) else None,
            "rate": hud.steps_per_second if math.isfinite(hud.steps_per_second) else None,
            "batch": hud.batch,
            "actor": hud.actor,
            "waiting": hud.waiting,
            "notice": hud.notice,
            "input": hud.input,
            "turn_based": hud.turn_based,
            "paused": hud.paused,
            "pace": hud.pace if math.isfinite(hud.pace) else None,
            "keys": [{"key": each.key, "action": each.action} for each in hud.keys],
        },
    }
    header = json.dumps(beside).encode()
    return struct.pack("<I", len(header)) + header + frame.jpeg
