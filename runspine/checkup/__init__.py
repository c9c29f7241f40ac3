"""What `runspine doctor` finds: one line for each thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line: `note` is for knowing only, `do` says what helps."""

    name: str
    level: Level
    says: str
    do: str = ""
