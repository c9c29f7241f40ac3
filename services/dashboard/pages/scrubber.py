"""Episodes played again in the page, one or several in lock-step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nicegui.element import Element

STATIC = Path(__file__).parents[1] / "static"


@dataclass(frozen=True, slots=True)
class Played:
    """An episode: its index, or best, worst, longest, shortest, first, last."""

    run: str
    episode: str
    label: str


class Scrubber(Element, component=STATIC / "scrubber.js"):
    def __init__(self, episodes: Sequence[Played]) -> None:
        super().__init__()
        self.show(episodes)

    def show(self, episodes: Sequence[Played]) -> None:
        self._props["sources"] = [
            {"run": each.run, "episode": each.episode, "label": each.label} for each in episodes
        ]
        self.update()
