"""Orders of people to a session, parsed from the messages that the worker forwards. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class KeyOrder(NamedTuple):
    """A key pressed or released."""

    number: int
    key: str
    down: bool


class ActorOrder(NamedTuple):
    """The actor to act next; a policy comes with its file, or with the reason why there is none."""

    actor: str
    path: Path | None = None
    trouble: str = ""


class PaceOrder(NamedTuple):
    """Changes of pace and state; None and 0 change nothing."""

    steps_per_second: float = 0.0
    turn_based: bool | None = None
    paused: bool | None = None
    reset: bool = False


Order = KeyOrder | ActorOrder | PaceOrder


def parse_order(message: dict[str, Any]) -> Order | None:
    """Parse a message; None for other messages."""
    match message:
        case {"input": dict(fields)}:
            number = int(fields.get("number") or 0)
            return KeyOrder(number, str(fields.get("key", "")), bool(fields.get("down")))
        case {"actor": dict(fields)}:
            path = fields.get("path")
            return ActorOrder(
                str(fields.get("actor", "")), Path(path) if path else None, str(fields.get("trouble") or "")
            )
        case {"pace": dict(fields)}:
            return PaceOrder(
                float(fields.get("steps_per_second") or 0.0),
                fields.get("turn_based"),
                fields.get("paused"),
                bool(fields.get("reset")),
            )
    return None
