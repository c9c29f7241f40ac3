"""`runspine compare`: learning curves of several runs, aggregated over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from runspine.cli.commands.analysis.metrics import AXES, LABELS, shown_x
from runspine.cli.errors import json_option
from runspine.cli.lookup.selection import select
from runspine.cli.ui.compare_report import as_plain, band_rows, echo_notes, echo_table
from runspine.cli.ui.plot import PlotLine, draw
from runspine.cli.ui.screen import console, echo, echo_json, note
from runspine.cli.ui.series_file import check_ending, write_rows
from runspine.compare.comparison import Comparison, Settings
from runspine.compare.comparison import compare as compared
from runspine.compare.curves import Curve, curve_of
from runspine.compare.groups import group_runs, member_of
from runspine.compare.references import (
    MAX_DATASETS,
    DatasetReturns,
    dataset_returns,
    default_metrics,
    references,
)
from runspine.errors import InvalidError, RunspineError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.telemetry_client import MAX_POINTS, TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.spec.nearest import not_accepted
from runspine.text.values import escaped
from runspine.wire.v1.run_pb2 import Run

FIGURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Metric, axis, range and scales of a comparison."""

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
    help="Runs with this env, algo, runner, project, name or label; repeatable.",
)
@click.option("--metric", metavar="NAME", help="Series to compare.  [default: episode/return]")
@click.option("--by", multiple=True, metavar="FIELD", help="Group runs by this field, such as params.gamma.")
@click.option(
    "--x",
    "axis",
    type=click.Choice(list(AXES)),
    default="step",
    show_default=True,
    help="Unit of the x axis.",
)
@click.option("--from", "low", type=float, metavar="X", help="Start of the range.")
@click.option(
    "--to", "high", type=float, metavar="X", help="End of the range, to compare at an equal budget."
)
@click.option(
    "--stat",
    type=click.Choice(["iqm", "mean"]),
    default="iqm",
    show_default=True,
    help="Statistic over seeds.",
)
@click.option(
    "--threshold", type=float, help="Value that counts as solved.  [default: 90 % of the way to the best]"
)
@click.option("--normalise", multiple=True, metavar="ENV=LOW:HIGH", help="Scale values of an env to 0..1.")
@click.option("--whole", is_flag=True, help="Continue the curve after the shortest run has ended.")
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.999),
    default=0.95,
    show_default=True,
    help="Confidence level.",
)
@click.option(
    "--samples", type=click.IntRange(100, 100_000), default=2000, show_default=True, help="Bootstrap samples."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Bootstrap seed.")
@click.option("--points", type=click.IntRange(2, 10_000), default=100, show_default=True, help="Grid points.")
@click.option(
    "--window",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Smoothing window as a share of the range.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.png|.svg", help="Write a figure."
)
@click.option(
    "--export",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.csv|.parquet",
    help="Write the curves.",
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
    """Compare runs: one curve for each group of runs that differ only in their seed.

    A curve is the interquartile mean over seeds with a stratified bootstrap interval. The table lists
    final performance, area under the curve, and when each group reaches a threshold.

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
        reader = TelemetryClient(client)
        metric = metric or _default_metric(reader, chosen)
        wanted = Wanted(metric, axis, low, high, _scales(normalise))
        curves = _curves(reader, chosen, named, wanted)
        shown = [run for run in chosen if run.id in curves]
        lines = references(_datasets(client, shown), metric, wanted.scales)
    members = [member_of(run) for run in shown]
    found = compared(group_runs(members, by), curves, settings, lines)
    _warn_mixed(found, members, wanted)
    _show(found, metric, axis, settings, as_json)
    if target is not None:
        write_rows(target, *band_rows(found))
        note(f"wrote the curves to {escaped(str(target))}")
    if out is not None:
        _draw_figure(out, found, metric, axis, settings)
        note(f"wrote the figure to {escaped(str(out))}")


def _datasets(client: Client, runs: Sequence[Run]) -> list[DatasetReturns]:
    """Returns of the datasets that the runs learned from; one that cannot be read is skipped with a note."""
    named = {run.spec.dataset.digest: run.spec.dataset.name for run in runs if run.spec.dataset.digest}
    found = []
    for digest, name in list(named.items())[:MAX_DATASETS]:
        try:
            artifact = ArtifactClient(client).get(digest).artifact
        except RunspineError as error:
            note(f"notice: no lines of dataset {escaped(name or digest[:12])}: {escaped(str(error))}")
            continue
        found.append(dataset_returns(name or digest[:12], artifact.meta))
    return found


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


def _default_metric(reader: TelemetryClient, runs: Sequence[Run]) -> str:
    known = {info.name for info in reader.series(runs[0].id)}
    wanted = default_metrics(run.spec for run in runs)
    return next((name for name in wanted if name in known), wanted[0])


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
    reader: TelemetryClient, runs: Sequence[Run], named: set[str], wanted: Wanted
) -> dict[str, Curve]:
    """Curves by run id. A run given by name must have the metric; others are skipped with a note."""
    curves: dict[str, Curve] = {}
    for run in runs:
        curve = _curve(reader, run, wanted)
        if len(curve):
            curves[run.id] = curve
            continue
        problem = _why_none(reader, run, wanted, curve.dropped)
        if run.id in named:
            raise InvalidError(problem)
        note(f"skipped: {escaped(problem)}")
    if not curves:
        raise InvalidError(f"none of these {len(runs)} runs has points of {wanted.metric}")
    return curves


def _curve(reader: TelemetryClient, run: Run, wanted: Wanted) -> Curve:
    low, high = (_on_axis(bound, wanted.axis, run) for bound in (wanted.low, wanted.high))
    [series] = reader.curves(
        run.id, [wanted.metric], axis=AXES[wanted.axis], low=low, high=high, max_points=MAX_POINTS
    )
    bottom, top = wanted.scales.get(run.spec.env, (0.0, 1.0))
    values = [(y - bottom) / (top - bottom) for y in series.y]
    return curve_of(shown_x(series, wanted.axis, run), values)


def _on_axis(bound: float | None, axis: str, run: Run) -> float | None:
    return run.started_at + bound * 1e6 if bound is not None and axis == "time" else bound


def _why_none(reader: TelemetryClient, run: Run, wanted: Wanted, dropped: int) -> str:
    """Why a run has no curve, and which series it has."""
    name = f"run {run.name} ({run.id})"
    if dropped:
        return f"{name}: all {dropped:,} points of {wanted.metric} are NaN or infinite; omit the run"
    known = {info.name: info for info in reader.series(run.id)}
    if wanted.metric in known:
        info = known[wanted.metric]
        where = f"its {info.points:,} points lie between steps {info.first_step:,} and {info.last_step:,}"
        return f"{name} has no points of {wanted.metric} in this range: {where}"
    if not known:
        return f"{name} has no series: no episode has ended and no metric was logged"
    return f"{name} has no {wanted.metric}: {not_accepted(wanted.metric, known, limit=40)}"


def _warn_mixed(found: Comparison, members: Sequence[Any], wanted: Wanted) -> None:
    """Print a notice for groups that mix envs without a common scale."""
    envs = {member.run_id: member.env for member in members}
    for group in found.groups:
        mixed = sorted({envs[seed.run_id] for seed in group.seeds})
        if len(mixed) > 1 and not all(env in wanted.scales for env in mixed):
            note(
                f"notice: {escaped(group.label)} mixes {escaped(', '.join(mixed))}; "
                "use --normalise ENV=LOW:HIGH"
            )


def _show(found: Comparison, metric: str, axis: str, settings: Settings, as_json: bool) -> None:
    if as_json:
        echo_json(as_plain(found, metric, axis, settings))
        return
    lines = [
        PlotLine(
            f"{group.label} (n = {len(group.seeds)})",
            *(part.tolist() for part in (band.x, band.y, band.low, band.high)),
        )
        for group in found.groups
        for band in [group.band]
    ]
    ends = [float(end) for group in found.groups for end in (group.band.x[0], group.band.x[-1])]
    lines += [
        PlotLine(f"{line.label} {line.value:.4g}", [min(ends), max(ends)], [line.value, line.value])
        for line in found.references
    ]
    width = max(20, min(console().width, 110) - 14)
    for text in draw(lines, title=_title(metric, settings), x_label=LABELS[axis], width=width):
        echo(text)
    echo()
    echo_table(found, axis)
    echo_notes(found, axis)


def _title(metric: str, settings: Settings) -> str:
    statistic = {"iqm": "interquartile mean", "mean": "mean"}[settings.statistic]
    return f"{metric}: {statistic} over seeds; shade: {settings.confidence * 100:g} % bootstrap interval"


def _draw_figure(out: Path, found: Comparison, metric: str, axis: str, settings: Settings) -> None:
    try:
        from runspine.cli.ui.compare_figure import save_figure
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise InvalidError(
            "--out needs matplotlib; install it with: pip install 'runspine[compare]'"
        ) from error
    save_figure(out, found, metric=metric, x_label=_axis_title(axis), settings=settings)


def _axis_title(axis: str) -> str:
    return {"step": "Environment steps", "time": "Time since the start (s)", "episode": "Episodes"}[axis]
