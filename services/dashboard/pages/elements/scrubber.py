"""The scrubber: replays one episode, or several in lock-step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nicegui.element import Element

from runspine.services.dashboard.assets import STATIC


@dataclass(frozen=True, slots=True)
class ScrubbedEpisode:
    """An episode: its index, or best, worst, longest, shortest, first, last."""

    run: str
    episode: str
    label: str


class EpisodeScrubber(Element, component=STATIC / "scrubber.js"):
    def __init__(self, episodes: Sequence[ScrubbedEpisode]) -> None:
        super().__init__()
        self.show(episodes)

    def show(self, episodes: Sequence[ScrubbedEpisode]) -> None:
        self._props["sources"] = [
            {"run": each.run, "episode": each.episode, "label": each.label} for each in episodes
        ]
        self.update()
