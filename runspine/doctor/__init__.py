"""Checks of `runspine doctor`: of this machine, and of a running deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report: `note` is information only, `do` is the remedy."""

    name: str
    level: Level
    summary: str
    do: str = ""

    def as_json(self) -> dict[str, str]:
        """The line as `runspine doctor --json` prints it."""
        return {"name": self.name, "level": self.level, "says": self.summary, "do": self.do}
