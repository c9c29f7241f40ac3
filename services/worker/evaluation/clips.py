"""Clips of the best and the worst episode so far."""

from __future__ import annotations

from typing import Any, NamedTuple

from services.worker.filming.crew import Crew, Take


class Played(NamedTuple):
    """An evaluated episode."""

    number: int
    value: float
    length: int


class Clips:
    """Looks at each episode, and after each batch has those filmed that are new records."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._records: dict[str, tuple[Played, dict[str, Any]]] = {}
        self._filmed: dict[str, int] = {}

    def see(self, played: Played, env: Any) -> None:
        """After its last step, before the env is reset."""
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
        """Have what is new filmed. Never waits."""
        for which, (played, episode) in self._records.items():
            same = which == "worst" and played.number == self._records["best"][0].number
            if self._filmed.get(which) != played.number and not same:
                self._filmed[which] = played.number
                self.crew.film(_take(which, played, episode))


def _take(which: str, played: Played, episode: dict[str, Any]) -> Take:
    meta = {"episode_id": f"0-{played.number}", "return": played.value, "length": played.length}
    return Take(f"{which}-episode-{played.number}", episode, {**meta, "which": which})
