"""Where a replay differs from its record, and which packages have changed since. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first value that differs from the record. Without a step: at the reset."""

    step: int | None
    # observation, reward, terminated, truncated, or error when the env raised.
    field: str
    recorded: Any
    got: Any

    @property
    def where(self) -> str:
        return "at the reset" if self.step is None else f"at step {self.step}"

    @property
    def after(self) -> int:
        """How many steps are as recorded, -1 when not even the reset is."""
        return -1 if self.step is None else self.step

    def __str__(self) -> str:
        return (
            f"diverged {self.where}: {self.field} was {short(self.recorded)}, came out as {short(self.got)}"
        )


@dataclass(frozen=True, slots=True)
class ChangedPackage:
    """A package whose version differs from the recording; `now` is empty when it is not installed."""

    package: str
    recorded: str
    now: str

    def __str__(self) -> str:
        return f"{self.package} {self.recorded} when recorded, {self.now or 'not installed'} now"


def changed_packages(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[ChangedPackage]:
    return [
        ChangedPackage(package, version, now.get(package, ""))
        for package, version in sorted(recorded.items())
        if now.get(package, "") != version
    ]


def first_difference(recorded: Any, got: Any) -> tuple[tuple[int, ...], float, float] | None:
    """Index and values of the first number that differs in two arrays of one shape."""
    try:
        one, other = np.asarray(recorded), np.asarray(got)
    except ValueError:
        return None
    if one.shape != other.shape or not one.shape or {one.dtype.kind, other.dtype.kind} - set("biuf"):
        return None
    differ = np.argwhere((one != other) & ~((one != one) & (other != other)))
    if not len(differ):
        return None
    place = tuple(differ[0].tolist())
    return place, one[place].item(), other[place].item()


def short(value: Any, width: int = 120) -> str:
    text = str(value)
    return text if len(text) <= width else f"{text[: width - 1]}…"
