"""What people say to a session, from the lines that the worker passes on. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class Key(NamedTuple):
    number: int
    key: str
    down: bool


class Choose(NamedTuple):
    """Who shall act; a policy comes with its file, or with the reason why there is none."""

    actor: str
    path: Path | None = None
    trouble: str = ""


class Pace(NamedTuple):
    """None and 0 leave things as they are."""

    steps_per_second: float = 0.0
    turn_based: bool | None = None
    paused: bool | None = None
    reset: bool = False


Order = Key | Choose | Pace


def order_of(said: dict[str, Any]) -> Order | None:
    """None for what is not ours to hear."""
    match said:
        case {"input": dict(told)}:
            number = int(told.get("number") or 0)
            return Key(number, str(told.get("key", "")), bool(told.get("down")))
        case {"actor": dict(told)}:
            path = told.get("path")
            return Choose(
                str(told.get("actor", "")), Path(path) if path else None, str(told.get("trouble") or "")
            )
        case {"pace": dict(told)}:
            return Pace(
                float(told.get("steps_per_second") or 0.0),
                told.get("turn_based"),
                told.get("paused"),
                bool(told.get("reset")),
            )
    return None
