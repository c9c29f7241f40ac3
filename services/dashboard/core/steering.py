"""Steering messages of a page, converted to the Control that the worker receives. Pure."""

from __future__ import annotations

import math
from typing import Any

from runspine.play.actor_names import BDI, agent_of, is_actor
from runspine.wire.v1.live_pb2 import ChooseActor, Control, Input, Pace

MAX_KEY_LENGTH = 32


def parse_control(message: Any, person: str) -> Control:
    """Raises ValueError when the message is none that the page sends."""
    match message:
        case {"input": {"key": str(key), "number": int(number), "down": bool(down)}}:
            if len(key) <= MAX_KEY_LENGTH and 0 <= number < 1 << 63:
                return Control(input=Input(person=person, number=number, key=key, down=down))
        case {"actor": str(actor)}:
            # Plans come with the spec: an agent without a checkpoint cannot be chosen later.
            if is_actor(actor) and agent_of(actor) != BDI:
                return Control(actor=ChooseActor(person=person, actor=actor))
        case {"pace": dict(pace)}:
            return Control(pace=_parse_pace(pace))
    raise ValueError(f"not a steering message: {str(message)[:100]}")


def _parse_pace(message: dict[str, Any]) -> Pace:
    rate = message.get("steps_per_second", 0)
    if not isinstance(rate, int | float) or not math.isfinite(rate) or rate < 0:
        raise ValueError(f"not a pace: {str(rate)[:40]}")
    pace = Pace(steps_per_second=float(rate), reset=message.get("reset") is True)
    for name in ("turn_based", "paused"):
        if isinstance(message.get(name), bool):
            setattr(pace, name, message[name])
    return pace
