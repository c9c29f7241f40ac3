"""`runspine episodes`: list the episodes of a run with the indexes that `replay` takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import run_argument, run_id_of
from runspine.cli.ui.plot import sparkline
from runspine.cli.ui.screen import Cell, echo, echo_json, note, table
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import age, extremes, number
from runspine.wire.v1 import telemetry_pb2 as wire

ORDERS = {"time": wire.BY_TIME, "return": wire.BY_RETURN, "length": wire.BY_LENGTH}
PAGE_SIZE = 1000
EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR_WIDTH = 12
# Name of the series of episode returns.
RETURNS = "episode/return"


@click.command()
@run_argument
@click.option("--sort", type=click.Choice(list(ORDERS)), default="time", help="Sort key. [default: time]")
@click.option("--desc", is_flag=True, help="Sort in descending order.")
@click.option("--limit", type=click.IntRange(1), default=20, help="Maximum number of episodes. [default: 20]")
@json_option
def episodes(run: str, sort: str, desc: bool, limit: int, as_json: bool) -> None:
    """List the completed episodes of a run. `runspine replay RUN INDEX` replays one."""
    with Client() as client:
        run_id = run_id_of(client, run)
        found, total = _listed(client, run_id, ORDERS[sort], desc, limit)
        curve = [] if as_json or total < 3 else _returns(client, run_id)
    if as_json:
        echo_json({"run_id": run_id, "total": total, "episodes": [to_plain(entry) for entry in found]})
        return
    if not found:
        note("no episode has ended yet")
        return
    if curve:
        low, high = map(number, extremes(curve, curve))
        echo(f"returns {sparkline(curve)}  {low} to {high}, {total:,} episodes")
        echo()
    _show(found)
    if total > len(found):
        note(f"{len(found)} of {total:,}; --limit shows more, --sort return --desc the best")


def _listed(
    client: Client, run_id: str, order: wire.EpisodeOrder, desc: bool, limit: int
) -> tuple[list[wire.EpisodeEntry], int]:
    request = wire.ListEpisodesRequest(run_id=run_id, order=order, descending=desc)
    found: list[wire.EpisodeEntry] = []
    while True:
        request.page_size = min(PAGE_SIZE, limit - len(found))
        page = client.call_telemetry("ListEpisodes", request, wire.ListEpisodesResponse)
        found += page.episodes
        if len(found) >= limit or not page.next_page_token:
            return found, page.total
        request.page_token = page.next_page_token


def _returns(client: Client, run_id: str) -> list[float]:
    """Returns over the run, reduced to the points of one line."""
    request = wire.QueryMetricsRequest(run_id=run_id, names=[RETURNS], max_points=40)
    answer = client.call_telemetry("QueryMetrics", request, wire.QueryMetricsResponse)
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
            f"{episode.steps:,}" if episode.HasField("steps") else "",
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
    """Yield a bar for each value, scaled to the range of all values."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    for value in values:
        if not math.isfinite(value) or high == low:
            yield ""
            continue
        eighths = round((value - low) / (high - low) * BAR_WIDTH * 8)
        whole, rest = divmod(max(1, eighths), 8)
        yield "█" * whole + (EIGHTHS[rest] if rest else "")
