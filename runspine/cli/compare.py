"""`runspine compare`: curves of several runs, aggregated over their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from runspine.cli.compare_report import as_plain, band_rows, say_notes, say_table
from runspine.cli.edge import json_option
from runspine.cli.metrics import AXES, LABELS, shown_x
from runspine.cli.plot import Line, draw
from runspine.cli.screen import console, note, say, say_json
from runspine.cli.selection import member_of, select
from runspine.cli.series_file import check_ending, write_rows
from runspine.cli.text import escaped
from runspine.client import Client
from runspine.compare.comparison import Comparison, Settings
from runspine.compare.comparison import compare as compared
from runspine.compare.curves import Curve, curve_of
from runspine.compare.groups import grouped
from runspine.errors import Invalid
from runspine.nearest import not_accepted
from runspine.telemetry_reader import MOST_POINTS, TelemetryReader
from runspine.wire.v1.run_pb2 import Run

USUAL = ("episode/return", "charts/episodic_return")
FIGURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class Wanted:
    metric: str
    axis: str
    low: float | None
    high: float | None
    scales: dict[str, tuple[float, float]]


@click.command(name="compare")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--group",
    "selections",
    multiple=True,
    metavar="KEY=VALUE[,…]",
    help="Runs with this env, algo, runner, project, name or label; repeat for more.",
)
@click.option("--metric", metavar="NAME", help="The series to compare.  [default: episode/return]")
@click.option("--by", multiple=True, metavar="FIELD", help="One curve for each value, such as params.gamma.")
@click.option(
    "--x", "axis", type=click.Choice(list(AXES)), default="step", show_default=True, help="The x axis."
)
@click.option("--from", "low", type=float, metavar="X", help="Only from here on.")
@click.option("--to", "high", type=float, metavar="X", help="Only up to here: compare at an equal budget.")
@click.option(
    "--stat", type=click.Choice(["iqm", "mean"]), default="iqm", show_default=True, help="The curve."
)
@click.option(
    "--threshold", type=float, help="What counts as solved.  [default: 90 % of the way to the best]"
)
@click.option("--normalise", multiple=True, metavar="ENV=LOW:HIGH", help="Scores of an env as 0 to 1.")
@click.option("--whole", is_flag=True, help="Draw on over the seeds that are left when one has ended.")
@click.option("--confidence", type=click.FloatRange(0.5, 0.999), default=0.95, show_default=True)
@click.option(
    "--samples", type=click.IntRange(100, 100_000), default=2000, show_default=True, help="Of the bootstrap."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the bootstrap.")
@click.option("--points", type=click.IntRange(2, 10_000), default=100, show_default=True, help="Of the grid.")
@click.option(
    "--window",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Part of the range that each place of a curve is the mean of.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.png|.svg", help="A figure."
)
@click.option(
    "--export",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.csv|.parquet",
    help="The curves.",
)
@json_option
def compare(
    runs: tuple[str, ...],
    selections: tuple[str, ...],
    metric: str | None,
    by: tuple[str, ...],
    axis: str,
    low: float | None,
    high: float | None,
    normalise: tuple[str, ...],
    out: Path | None,
    target: Path | None,
    as_json: bool,
    **rest: Any,
) -> None:
    """Compare runs: one curve for each group of runs that differ in nothing but their seed.

    The curve is the interquartile mean over seeds with a stratified bootstrap interval. The table tells
    how well each group ends, how much it has learned on the way, and when it gets to a threshold.

    \b
    runspine compare --group env=CartPole-v1 --out cartpole.png
    runspine compare --group group=lr-sweep --by params.learning_rate
    """
    if out is not None:
        check_ending(out, FIGURES)
    if target is not None:
        check_ending(target)
    settings = _settings(**rest)
    with Client() as client:
        chosen, named = select(client, runs, selections)
        reader = TelemetryReader(client)
        metric = metric or _usual_metric(reader, chosen)
        wanted = Wanted(metric, axis, low, high, _scales(normalise))
        curves = _curves(reader, chosen, named, wanted)
    members = [member_of(run) for run in chosen if run.id in curves]
    found = compared(grouped(members, by), curves, settings)
    _warn_mixed(found, members, wanted)
    _show(found, metric, axis, settings, as_json)
    if target is not None:
        write_rows(target, *band_rows(found))
        note(f"the curves are in {escaped(str(target))}")
    if out is not None:
        _draw_figure(out, found, metric, axis, settings)
        note(f"the figure is in {escaped(str(out))}")


def _settings(
    stat: str,
    threshold: float | None,
    whole: bool,
    confidence: float,
    samples: int,
    seed: int,
    points: int,
    window: float,
) -> Settings:
    return Settings(
        points=points,
        window=window,
        statistic=stat,
        confidence=confidence,
        samples=samples,
        seed=seed,
        threshold=threshold,
        whole=whole,
    )


def _usual_metric(reader: TelemetryReader, runs: Sequence[Run]) -> str:
    known = {info.name for info in reader.series(runs[0].id)}
    return next((name for name in USUAL if name in known), USUAL[0])


def _scales(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    scales = {}
    for text in texts:
        env, _, bounds = text.rpartition("=")
        low, colon, high = bounds.partition(":")
        try:
            scales[env] = (float(low), float(high))
        except ValueError:
            colon = ""
        if not env or not colon or scales[env][0] == scales[env][1]:
            raise click.UsageError(f"--normalise {text}: expected ENV=LOW:HIGH, such as CartPole-v1=20:500")
    return scales


def _curves(
    reader: TelemetryReader, runs: Sequence[Run], named: set[str], wanted: Wanted
) -> dict[str, Curve]:
    """By run id. A run that was named must have the metric; one that was found is left out, and told."""
    curves: dict[str, Curve] = {}
    for run in runs:
        curve = _curve(reader, run, wanted)
        if len(curve):
            curves[run.id] = curve
            continue
        trouble = _why_none(reader, run, wanted, curve.dropped)
        if run.id in named:
            raise Invalid(trouble)
        note(f"left out: {escaped(trouble)}")
    if not curves:
        raise Invalid(f"none of these {len(runs)} runs has points of {wanted.metric}")
    return curves


def _curve(reader: TelemetryReader, run: Run, wanted: Wanted) -> Curve:
    low, high = (_on_axis(bound, wanted.axis, run) for bound in (wanted.low, wanted.high))
    [series] = reader.curves(
        run.id, [wanted.metric], axis=AXES[wanted.axis], low=low, high=high, max_points=MOST_POINTS
    )
    bottom, top = wanted.scales.get(run.spec.env, (0.0, 1.0))
    values = [(y - bottom) / (top - bottom) for y in series.y]
    return curve_of(shown_x(series, wanted.axis, run), values)


def _on_axis(bound: float | None, axis: str, run: Run) -> float | None:
    return run.started_at + bound * 1e6 if bound is not None and axis == "time" else bound


def _why_none(reader: TelemetryReader, run: Run, wanted: Wanted, dropped: int) -> str:
    """What is wrong with a run that gives no curve, and what it has instead."""
    name = f"run {run.name} ({run.id})"
    if dropped:
        return f"{name}: all {dropped:,} points of {wanted.metric} are NaN or infinite; leave it out"
    known = {info.name: info for info in reader.series(run.id)}
    if wanted.metric in known:
        info = known[wanted.metric]
        where = f"its {info.points:,} points lie between steps {info.first_step:,} and {info.last_step:,}"
        return f"{name} has no points of {wanted.metric} in the range asked for: {where}"
    if not known:
        return f"{name} has no series at all: no episode has ended and nothing was measured"
    return f"{name} has no {wanted.metric}: {not_accepted(wanted.metric, known, limit=40)}"


def _warn_mixed(found: Comparison, members: Sequence[Any], wanted: Wanted) -> None:
    """Returns of different envs in one mean say nothing unless they are on one scale."""
    envs = {member.run_id: member.env for member in members}
    for group in found.groups:
        mixed = sorted({envs[seed.run_id] for seed in group.seeds})
        if len(mixed) > 1 and not all(env in wanted.scales for env in mixed):
            note(
                f"notice: {escaped(group.label)} mixes {escaped(', '.join(mixed))}; "
                "bring them to one scale with --normalise ENV=LOW:HIGH"
            )


def _show(found: Comparison, metric: str, axis: str, settings: Settings, as_json: bool) -> None:
    if as_json:
        say_json(as_plain(found, metric, axis, settings))
        return
    lines = [
        Line(
            f"{group.label} (n = {len(group.seeds)})",
            *(part.tolist() for part in (band.x, band.y, band.low, band.high)),
        )
        for group in found.groups
        for band in [group.band]
    ]
    width = max(20, min(console().width, 110) - 14)
    for text in draw(lines, title=_title(metric, settings), x_label=LABELS[axis], width=width):
        say(text)
    say()
    say_table(found, axis)
    say_notes(found, axis)


def _title(metric: str, settings: Settings) -> str:
    statistic = {"iqm": "interquartile mean", "mean": "mean"}[settings.statistic]
    return f"{metric}: {statistic} over seeds; shade: {settings.confidence * 100:g} % bootstrap interval"


def _draw_figure(out: Path, found: Comparison, metric: str, axis: str, settings: Settings) -> None:
    try:
        from runspine.cli.compare_figure import save_figure
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise Invalid("--out needs matplotlib; install it with: pip install 'runspine[compare]'") from error
    save_figure(out, found, metric=metric, x_label=_axis_title(axis), settings=settings)


def _axis_title(axis: str) -> str:
    return {"step": "Environment steps", "time": "Time since the start (s)", "episode": "Episodes"}[axis]
