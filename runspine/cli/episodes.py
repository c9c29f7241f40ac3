"""`runspine episodes`: the episodes of a run, and what `replay` calls them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import click

from runspine.cli.ask import run_argument, run_id_of
from runspine.cli.edge import json_option
from runspine.cli.screen import Cell, note, say, say_json, table
from runspine.cli.text import age, number
from runspine.client import Client
from runspine.plain import to_plain
from runspine.wire.v1 import telemetry_pb2 as wire

ORDERS = {"time": wire.BY_TIME, "return": wire.BY_RETURN, "length": wire.BY_LENGTH}
PAGE = 1000
BLOCKS = " ▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 12
# The series of all returns, as the telemetry service calls it.
RETURNS = "episode/return"


@click.command()
@run_argument
@click.option("--sort", type=click.Choice(list(ORDERS)), default="time", help="By what. [default: time]")
@click.option("--desc", is_flag=True, help="The largest, or the newest, first.")
@click.option("--limit", type=click.IntRange(1), default=20, help="How many at most. [default: 20]")
@json_option
def episodes(run: str, sort: str, desc: bool, limit: int, as_json: bool) -> None:
    """List the episodes of a run that have ended. `runspine replay RUN INDEX` plays one again."""
    with Client() as client:
        run_id = run_id_of(client, run)
        found, total = _listed(client, run_id, ORDERS[sort], desc, limit)
        curve = [] if as_json or total < 3 else _returns(client, run_id)
    if as_json:
        say_json({"run_id": run_id, "total": total, "episodes": [to_plain(entry) for entry in found]})
        return
    if not found:
        note("no episode has ended yet")
        return
    if curve:
        low, high = number(min(curve)), number(max(curve))
        say(f"returns {sparkline(curve)}  {low} to {high}, {total:,} episodes")
        say()
    _show(found)
    if total > len(found):
        note(f"{len(found)} of {total:,}; --limit shows more, --sort return --desc the best")


def _listed(
    client: Client, run_id: str, order: wire.EpisodeOrder, desc: bool, limit: int
) -> tuple[list[wire.EpisodeEntry], int]:
    request = wire.ListEpisodesRequest(run_id=run_id, order=order, descending=desc)
    found: list[wire.EpisodeEntry] = []
    while True:
        request.page_size = min(PAGE, limit - len(found))
        page = client.ask_telemetry("ListEpisodes", request, wire.ListEpisodesResponse)
        found += page.episodes
        if len(found) >= limit or not page.next_page_token:
            return found, page.total
        request.page_token = page.next_page_token


def _returns(client: Client, run_id: str) -> list[float]:
    """Means of the returns over the run, few enough for a line."""
    request = wire.QueryMetricsRequest(run_id=run_id, names=[RETURNS], max_points=40)
    answer = client.ask_telemetry("QueryMetrics", request, wire.QueryMetricsResponse)
    return [value for series in answer.series for value in series.y if math.isfinite(value)]


def _show(found: Sequence[wire.EpisodeEntry]) -> None:
    several = {
        "agent": any(entry.episode.agent_id for entry in found),
        "attempt": any(entry.attempt > 1 for entry in found),
    }
    headings = ["index", "episode", "slot", "steps", "return", "", "end", "ended"]
    headings += [name for name, shown in several.items() if shown]
    bars = _bars([_return(entry) for entry in found])
    rows: list[list[Cell | str]] = []
    for entry, bar in zip(found, bars, strict=True):
        episode = entry.episode
        row: list[Cell | str] = [
            Cell(str(entry.index), "bold"),
            episode.episode_id,
            str(episode.slot),
            f"{episode.steps:,}",
            number(_return(entry)),
            Cell(bar, "cyan"),
            end_word(episode.flags),
            age(episode.ended_at),
        ]
        more = {"agent": episode.agent_id, "attempt": str(entry.attempt)}
        rows.append(row + [more[name] for name, shown in several.items() if shown])
    table(headings, rows, right=("index", "slot", "steps", "return", "ended", "attempt"))


def _return(entry: wire.EpisodeEntry) -> float:
    # A keyword in Python.
    return float(getattr(entry.episode, "return"))


def end_word(flags: int) -> str:
    return ("", "terminated", "truncated", "both")[flags & 3]


def _bars(values: Sequence[float]) -> Iterator[str]:
    """A bar for each, from the least to the largest of those shown."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    for value in values:
        if not math.isfinite(value) or high == low:
            yield ""
            continue
        eighths = round((value - low) / (high - low) * BAR * 8)
        whole, rest = divmod(max(1, eighths), 8)
        yield "█" * whole + (EIGHTHS[rest] if rest else "")


def sparkline(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(BLOCKS[1 + round((value - low) / span * 7)] for value in values)
