"""What a page says to a play session, as it goes out to the worker. Pure."""

from __future__ import annotations

import math
import re
from typing import Any

from runspine.wire.v1.live_pb2 import ChooseActor, Control, Input, Pace

MOST_KEY = 32
_ACTOR = re.compile(r"(human|random|(policy|bdi):[0-9a-f]{64})\Z")


def control_of(said: Any, person: str) -> Control:
    """Raises ValueError on anything that our page does not say."""
    match said:
        case {"input": {"key": str(key), "number": int(number), "down": bool(down)}}:
            if len(key) <= MOST_KEY and 0 <= number < 1 << 63:
                return Control(input=Input(person=person, number=number, key=key, down=down))
        case {"actor": str(actor)}:
            if _ACTOR.match(actor):
                return Control(actor=ChooseActor(person=person, actor=actor))
        case {"pace": dict(pace)}:
            return Control(pace=_pace(pace))
    raise ValueError(f"not a way to steer: {str(said)[:100]}")


def _pace(said: dict[str, Any]) -> Pace:
    rate = said.get("steps_per_second", 0)
    if not isinstance(rate, int | float) or not math.isfinite(rate) or rate < 0:
        raise ValueError(f"not a pace: {str(rate)[:40]}")
    pace = Pace(steps_per_second=float(rate), reset=said.get("reset") is True)
    for name in ("turn_based", "paused"):
        if isinstance(said.get(name), bool):
            setattr(pace, name, said[name])
    return pace
