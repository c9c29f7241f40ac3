"""`runspine metrics`: the metric series of a run as a table, a chart or a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find, parse_time_option, run_argument
from runspine.cli.ui.plot import PlotLine, draw, sparkline
from runspine.cli.ui.screen import console, echo, echo_json, note, table
from runspine.cli.ui.series_file import write_rows
from runspine.compare.curves import seconds_since
from runspine.errors import InvalidError, RunNotFoundError
from runspine.rpc.telemetry_client import MAX_POINTS, TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import iso_time
from runspine.text.values import escaped, extremes, number
from runspine.wire.v1 import telemetry_pb2 as wire
from runspine.wire.v1.run_pb2 import Run

AXES = {"step": wire.ENV_STEP, "time": wire.TIME, "episode": wire.EPISODE}
LABELS = {"step": "env steps", "time": "s since the start", "episode": "episodes"}
SPARKLINE_WIDTH = 24


@click.command()
@run_argument
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--plot", is_flag=True, help="Draw a chart of each series.")
@click.option(
    "--x",
    "axis",
    type=click.Choice(list(AXES)),
    default="step",
    show_default=True,
    help="Unit of the x axis.",
)
@click.option("--from", "low", metavar="X", help="Start of the range: a step, an episode or a time.")
@click.option("--to", "high", metavar="X", help="End of the range.")
@click.option("--points", type=click.IntRange(10, MAX_POINTS), help="Maximum points of a chart.")
@click.option(
    "--export",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.csv|.parquet",
    help="Write every point to a file.",
)
@json_option
def metrics(
    run: str,
    names: tuple[str, ...],
    plot: bool,
    axis: str,
    low: str | None,
    high: str | None,
    points: int | None,
    target: Path | None,
    as_json: bool,
) -> None:
    """List the series of a run with their number of points, last value, range and shape.

    NAME is a series or a prefix: `losses/` selects all series below it.

    \b
    runspine metrics RUN
    runspine metrics RUN episode/return --plot --x time
    runspine metrics RUN losses/ --export losses.csv
    """
    with Client() as client:
        found, reader = find(client, run).run, TelemetryClient(client)
        window = (_bound(low, axis, found, "--from"), _bound(high, axis, found, "--to"))
        infos = chosen(found, reader.series(found.id), names)
        if target is not None:
            _export(reader, found, infos, axis, window, target, as_json)
        elif plot:
            _plot(reader, found, infos, axis, window, points or 2000)
        else:
            _list(reader, found, infos, axis, window, points or SPARKLINE_WIDTH, as_json)


def chosen(run: Run, infos: Sequence[wire.SeriesInfo], names: Sequence[str]) -> list[wire.SeriesInfo]:
    """Select series by name or prefix. Raises RunNotFoundError with the nearest names."""
    if not infos:
        raise RunNotFoundError(
            f"run {run.name} has no series yet: no metric was logged and no episode has ended"
        )
    picked: dict[str, wire.SeriesInfo] = {}
    known = {info.name: info for info in infos}
    for name in names or known:
        matching = [name] if name in known else [other for other in known if other.startswith(name)]
        if not matching:
            raise RunNotFoundError(f"run {run.name}: series {not_accepted(name, known, limit=40)}")
        picked |= {match: known[match] for match in matching}
    return list(picked.values())


def _bound(text: str | None, axis: str, run: Run, option: str) -> float | None:
    """Parse a bound into the unit of the service: for times, microseconds since 1970."""
    if text is None:
        return None
    try:
        value = float(text.replace("_", "").replace(",", ""))
    except ValueError:
        if axis == "time":
            return float(parse_time_option(text, option))
        raise click.UsageError(f"{option} {text}: expected a number of {LABELS[axis]}") from None
    if not math.isfinite(value):
        raise click.UsageError(f"{option} {text}: expected a finite number")
    return run.started_at + value * 1e6 if axis == "time" else value


def _query(
    reader: TelemetryClient, run: Run, names: Sequence[str], axis: str, window: Any, points: int
) -> Sequence[wire.Series]:
    return reader.curves(run.id, names, axis=AXES[axis], low=window[0], high=window[1], max_points=points)


def shown_x(series: wire.Series, axis: str, run: Run) -> list[float]:
    """x values for display; times in seconds since the start of the run."""
    return seconds_since(run.started_at, series.x) if axis == "time" else list(series.x)


def _list(
    reader: TelemetryClient,
    run: Run,
    infos: Sequence[wire.SeriesInfo],
    axis: str,
    window: Any,
    points: int,
    as_json: bool,
) -> None:
    curves = _query(reader, run, [info.name for info in infos], axis, window, points)
    if as_json:
        echo_json(
            {
                "run_id": run.id,
                "series": [_series_json(i, c, axis, run) for i, c in zip(infos, curves, strict=True)],
            }
        )
        return
    rows = [
        [
            info.name,
            number(curve.points),
            number(info.last),
            *map(number, extremes(curve.low, curve.high)),
            sparkline(_thinned(list(curve.y), SPARKLINE_WIDTH)),
        ]
        for info, curve in zip(infos, curves, strict=True)
    ]
    table(("SERIES", "POINTS", "LAST", "MIN", "MAX", "SHAPE"), rows, right=("POINTS", "LAST", "MIN", "MAX"))


def _series_json(info: wire.SeriesInfo, curve: wire.Series, axis: str, run: Run) -> dict[str, Any]:
    low, high = extremes(curve.low, curve.high)
    return {
        "name": info.name,
        "points": curve.points,
        "last": info.last,
        "minimum": low,
        "maximum": high,
        "first_step": info.first_step,
        "last_step": info.last_step,
        "axis": axis,
        "exact": curve.exact,
        "x": [iso_time(int(x)) for x in curve.x] if axis == "time" else list(curve.x),
        "y": list(curve.y),
        "low": list(curve.low),
        "high": list(curve.high),
    }


def _plot(
    reader: TelemetryClient, run: Run, infos: Sequence[wire.SeriesInfo], axis: str, window: Any, points: int
) -> None:
    width = max(20, min(console().width, 120) - 14)
    for curve in _query(reader, run, [info.name for info in infos], axis, window, points):
        mean, low, high = _binned(curve, shown_x(curve, axis, run), width)
        range_words = "; shade: lowest to highest" if low else ""
        title = f"{curve.name}  {run.name}  ({number(curve.points)} points{range_words})"
        line = PlotLine("", *mean, low, high)
        for text in draw([line], title=title, x_label=LABELS[axis], width=width, height=12):
            echo(text)
        echo()


def _binned(
    curve: wire.Series, xs: list[float], bins: int
) -> tuple[tuple[list[float], list[float]], list[float], list[float]]:
    """Mean and range in each column of the chart, so that noise is drawn as a band."""
    if len(xs) <= bins:
        return (xs, list(curve.y)), [], []
    size = len(xs) / bins
    parts = [slice(int(n * size), int((n + 1) * size)) for n in range(bins)]
    middle = [_mean(xs[part]) for part in parts]
    ranges = [extremes(curve.low[part], curve.high[part]) for part in parts]
    return (
        (middle, [_mean(list(curve.y[part])) for part in parts]),
        [low for low, _ in ranges],
        [high for _, high in ranges],
    )


def _mean(values: Sequence[float]) -> float:
    good = [value for value in values if math.isfinite(value)]
    return math.fsum(good) / len(good) if good else math.nan


def _thinned(values: list[float], limit: int) -> list[float]:
    if len(values) <= limit:
        return values
    size = len(values) / limit
    return [_mean(values[int(n * size) : int((n + 1) * size)]) for n in range(limit)]


def _export(
    reader: TelemetryClient,
    run: Run,
    infos: Sequence[wire.SeriesInfo],
    axis: str,
    window: Any,
    target: Path,
    as_json: bool,
) -> None:
    """Write every point; a range too large for one response is queried in parts."""
    rows: list[tuple[str, int, float]] = []
    for info in infos:
        rows += [(info.name, int(x), y) for x, y in _points(reader, run, info.name, axis, window)]
    write_rows(target, ("name", axis if axis != "time" else "time_us", "value"), rows)
    if as_json:
        echo_json({"run_id": run.id, "file": str(target), "rows": len(rows)})
    else:
        note(f"{number(len(rows))} points of {len(infos)} series in {escaped(str(target))}")


def _points(
    reader: TelemetryClient, run: Run, name: str, axis: str, window: Any
) -> list[tuple[float, float]]:
    [curve] = _query(reader, run, [name], axis, window, MAX_POINTS)
    if curve.exact:
        return list(zip(curve.x, curve.y, strict=True))
    low = window[0] if window[0] is not None else min(curve.x) - 1
    high = window[1] if window[1] is not None else None
    middle = float(math.floor(curve.x[len(curve.x) // 2]))
    if middle <= low or (high is not None and middle >= high):
        raise InvalidError(
            f"{name} has {number(curve.points)} points at one x; use `runspine export --to parquet`"
        )
    first = _points(reader, run, name, axis, (window[0], middle))
    return first + _points(reader, run, name, axis, (math.nextafter(middle, math.inf), window[1]))
