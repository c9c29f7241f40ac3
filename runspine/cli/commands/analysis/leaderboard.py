"""`runspine leaderboard`: rank evaluated checkpoints, with confidence intervals."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.ui.evaluation_progress import scores_of
from runspine.cli.ui.screen import echo, echo_json, note, table
from runspine.domain.scores import ScoreInterval, figures_of, interval_of
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import plain_value
from runspine.text.values import escaped, middle_cut, number
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import EVALUATE
from runspine.wire.v1.telemetry_pb2 import Score
from runspine.wire.v1.trainer_pb2 import ListRequest

PAGE_SIZE = 200


@dataclass(slots=True)
class LeaderboardEntry:
    """All measured returns of one checkpoint in one env and action mode."""

    digest: str
    env: str
    env_kwargs: str
    deterministic: bool
    algo: str = ""
    step: int = 0
    source: str = ""
    runs: list[str] = field(default_factory=list)
    # By seed of the episode: an episode measured twice counts once.
    episodes: dict[int, float] = field(default_factory=dict)

    def add(self, score: Score) -> None:
        first = score.seed + score.batch * len(score.returns)
        self.episodes |= {first + offset: value for offset, value in enumerate(score.returns)}
        self.algo, self.step = score.algo, score.step

    @property
    def returns(self) -> list[float]:
        return [self.episodes[seed] for seed in sorted(self.episodes)]


@dataclass(frozen=True, slots=True)
class LeaderboardPlace:
    entry: LeaderboardEntry
    mean: float
    std: float
    interval: ScoreInterval
    # Whether its interval overlaps that of the first.
    tied: bool


@click.command()
@click.option("--env", help="Only this env.")
@click.option("--project", default="", help="Only evaluations in this project.")
@click.option(
    "--top", type=click.IntRange(1), default=20, show_default=True, help="Places shown for each env."
)
@json_option
def leaderboard(env: str | None, project: str, top: int, as_json: bool) -> None:
    """Rank evaluated checkpoints, best first.

    Each mean has a 95 % bootstrap interval. Checkpoints whose interval overlaps that of the first are
    marked with =: more episodes may change their order.
    """
    with Client() as client:
        entries = collect(client, env or "", project)
    boards = ranked(entries, top)
    if as_json:
        echo_json(
            {"boards": [{"env": name, "places": [_plain(p) for p in places]} for name, places in boards]}
        )
        return
    if not boards:
        where = f" in {env}" if env else ""
        note(f"no evaluations{where} yet: runspine eval CHECKPOINT")
    for index, (name, places) in enumerate(boards):
        if index:
            echo()
        _draw(name, places)


def collect(client: Client, env: str, project: str) -> list[LeaderboardEntry]:
    found: dict[tuple[str, str, str, bool], LeaderboardEntry] = {}
    for page in client.pages(ListRequest(env=env, project=project, page_size=PAGE_SIZE)):
        for summary in page.runs:
            if summary.run.spec.mode == EVALUATE:
                _take(found, client, summary.run)
    return [entry for entry in found.values() if entry.episodes]


def _take(found: dict[tuple[str, str, str, bool], LeaderboardEntry], client: Client, run: Run) -> None:
    spec = run.spec
    kwargs = {name: plain_value(value) for name, value in spec.env_kwargs.items()}
    key = (
        spec.evaluation.digest,
        spec.env,
        json.dumps(kwargs, sort_keys=True),
        not spec.evaluation.stochastic,
    )
    entry = found.setdefault(key, LeaderboardEntry(*key))
    entry.source = spec.evaluation.run_id or spec.evaluation.name
    entry.runs.append(run.id)
    for score in scores_of(client, run.id):
        entry.add(score)


def ranked(entries: Iterable[LeaderboardEntry], top: int) -> list[tuple[str, list[LeaderboardPlace]]]:
    """Boards by env and env arguments, each best first. Pure."""
    boards: dict[str, list[LeaderboardEntry]] = defaultdict(list)
    for entry in entries:
        boards[entry.env + (f" {entry.env_kwargs}" if entry.env_kwargs != "{}" else "")].append(entry)
    return [(name, _places(boards[name])[:top]) for name in sorted(boards)]


def _places(entries: list[LeaderboardEntry]) -> list[LeaderboardPlace]:
    measured = [(figures_of(entry.returns), interval_of(entry.returns), entry) for entry in entries]
    # NaN sorts last.
    measured.sort(key=lambda item: (item[0].mean == item[0].mean, item[0].mean), reverse=True)
    first = measured[0][1]
    return [
        LeaderboardPlace(entry, figures.mean, figures.std, interval, n > 0 and interval.high >= first.low)
        for n, (figures, interval, entry) in enumerate(measured)
    ]


def _draw(name: str, places: list[LeaderboardPlace]) -> None:
    echo(escaped(name), "bold")
    rows = [
        [
            "=" if place.tied else str(rank),
            place.entry.digest[:12],
            place.entry.algo,
            f"{place.entry.step:,}" if place.entry.step else "–",
            "best" if place.entry.deterministic else "drawn",
            number(place.mean),
            f"{number(place.interval.low)} … {number(place.interval.high)}",
            number(place.std, 3),
            f"{len(place.entry.episodes):,}",
            middle_cut(place.entry.source, 28),
        ]
        for rank, place in enumerate(places, 1)
    ]
    headings = ["#", "checkpoint", "algo", "step", "actions", "mean", "95 %", "std", "episodes", "from"]
    table(headings, rows, right=["#", "step", "mean", "std", "episodes"])


def _plain(place: LeaderboardPlace) -> dict[str, Any]:
    entry = place.entry
    return {
        "digest": entry.digest,
        "algo": entry.algo,
        "step": entry.step,
        "deterministic": entry.deterministic,
        "env_kwargs": json.loads(entry.env_kwargs),
        "mean": place.mean,
        "std": place.std,
        "interval_95": [place.interval.low, place.interval.high],
        "tied_with_first": place.tied,
        "episodes": len(entry.episodes),
        "runs": entry.runs,
        "from": entry.source,
    }
