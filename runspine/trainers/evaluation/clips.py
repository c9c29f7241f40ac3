"""Clips of the best and the worst episode so far."""

from __future__ import annotations

from typing import Any, NamedTuple

from runspine.trainers.filming.crew import FilmCrew, FilmJob


class EvaluatedEpisode(NamedTuple):
    """An evaluated episode."""

    number: int
    value: float
    length: int


class EvaluationClips:
    """Keeps the best and worst episode, and films new ones after each batch."""

    def __init__(self, crew: FilmCrew) -> None:
        self.crew = crew
        self._records: dict[str, tuple[EvaluatedEpisode, dict[str, Any]]] = {}
        self._filmed: dict[str, int] = {}

    def add(self, played: EvaluatedEpisode, env: Any) -> None:
        """Called after the last step of an episode, before the env is reset."""
        best, worst = self._records.get("best"), self._records.get("worst")
        records = [
            which
            for which, held in (("best", best), ("worst", worst))
            if held is None
            or (played.value > held[0].value if which == "best" else played.value < held[0].value)
        ]
        if records:
            episode = env.snapshot()["episode"]
            self._records |= dict.fromkeys(records, (played, episode))

    def film(self) -> None:
        """Film new best and worst episodes in the background."""
        for which, (played, episode) in self._records.items():
            same = which == "worst" and played.number == self._records["best"][0].number
            if self._filmed.get(which) != played.number and not same:
                self._filmed[which] = played.number
                self.crew.film(_take(which, played, episode))


def _take(which: str, played: EvaluatedEpisode, episode: dict[str, Any]) -> FilmJob:
    meta = {"episode_id": f"0-{played.number}", "return": played.value, "length": played.length}
    return FilmJob(f"{which}-episode-{played.number}", episode, {**meta, "which": which})
