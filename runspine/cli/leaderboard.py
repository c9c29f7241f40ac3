"""`runspine leaderboard`: checkpoints side by side, and how sure their order is."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import click

from runspine.cli.edge import json_option
from runspine.cli.evaluating import scores_of
from runspine.cli.screen import note, say, say_json, table
from runspine.cli.text import escaped, middle_cut, number
from runspine.client import Client
from runspine.plain import plain_value
from runspine.scores import Interval, figures_of, interval_of
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import EVALUATE
from runspine.wire.v1.telemetry_pb2 import Score
from runspine.wire.v1.trainer_pb2 import ListRequest

PAGE = 200


@dataclass(slots=True)
class Entry:
    """One checkpoint in one env, acting in one way: all that was ever measured of it."""

    digest: str
    env: str
    env_kwargs: str
    deterministic: bool
    algo: str = ""
    step: int = 0
    source: str = ""
    runs: list[str] = field(default_factory=list)
    # By the seed an episode began with: the same episode measured twice counts once.
    episodes: dict[int, float] = field(default_factory=dict)

    def add(self, score: Score) -> None:
        first = score.seed + score.batch * len(score.returns)
        self.episodes |= {first + offset: value for offset, value in enumerate(score.returns)}
        self.algo, self.step = score.algo, score.step

    @property
    def returns(self) -> list[float]:
        return [self.episodes[seed] for seed in sorted(self.episodes)]


@dataclass(frozen=True, slots=True)
class Place:
    entry: Entry
    mean: float
    std: float
    interval: Interval
    # Whether what was measured does not tell it apart from the first.
    tied: bool


@click.command()
@click.option("--env", help="Only this env.")
@click.option("--project", default="", help="Only evaluations in this project.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Of each env.")
@json_option
def leaderboard(env: str | None, project: str, top: int, as_json: bool) -> None:
    """Compare evaluated checkpoints, best first.

    Each mean has an interval in which it lies with 95 % (bootstrap). Checkpoints whose interval reaches into
    that of the first are marked with =: more episodes may still turn their order round.
    """
    with Client() as client:
        entries = collect(client, env or "", project)
    boards = ranked(entries, top)
    if as_json:
        say_json(
            {"boards": [{"env": name, "places": [_plain(p) for p in places]} for name, places in boards]}
        )
        return
    if not boards:
        where = f" in {env}" if env else ""
        note(f"nothing was evaluated{where} yet: runspine eval CHECKPOINT")
    for index, (name, places) in enumerate(boards):
        if index:
            say()
        _draw(name, places)


def collect(client: Client, env: str, project: str) -> list[Entry]:
    found: dict[tuple[str, str, str, bool], Entry] = {}
    for page in client.pages(ListRequest(env=env, project=project, page_size=PAGE)):
        for summary in page.runs:
            if summary.run.spec.mode == EVALUATE:
                _take(found, client, summary.run)
    return [entry for entry in found.values() if entry.episodes]


def _take(found: dict[tuple[str, str, str, bool], Entry], client: Client, run: Run) -> None:
    spec = run.spec
    kwargs = {name: plain_value(value) for name, value in spec.env_kwargs.items()}
    key = (
        spec.evaluation.digest,
        spec.env,
        json.dumps(kwargs, sort_keys=True),
        not spec.evaluation.stochastic,
    )
    entry = found.setdefault(key, Entry(*key))
    entry.source = spec.evaluation.run_id or spec.evaluation.name
    entry.runs.append(run.id)
    for score in scores_of(client, run.id):
        entry.add(score)


def ranked(entries: Iterable[Entry], top: int) -> list[tuple[str, list[Place]]]:
    """Boards of one env and one set of its arguments each, best first. Pure."""
    boards: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        boards[entry.env + (f" {entry.env_kwargs}" if entry.env_kwargs != "{}" else "")].append(entry)
    return [(name, _places(boards[name])[:top]) for name in sorted(boards)]


def _places(entries: list[Entry]) -> list[Place]:
    told = [(figures_of(entry.returns), interval_of(entry.returns), entry) for entry in entries]
    # What is not a number comes last.
    told.sort(key=lambda item: (item[0].mean == item[0].mean, item[0].mean), reverse=True)
    first = told[0][1]
    return [
        Place(entry, figures.mean, figures.std, interval, n > 0 and interval.high >= first.low)
        for n, (figures, interval, entry) in enumerate(told)
    ]


def _draw(name: str, places: list[Place]) -> None:
    say(escaped(name), "bold")
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


def _plain(place: Place) -> dict[str, Any]:
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
