"""`runspine bench`: benchmarks of Runspine, next to baselines of the machine and other tools."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def bench() -> None:
    """Run the benchmarks on this machine and compare them with their targets."""


@bench.command()
@click.option("--facts", default=1_000_000, show_default=True, help="Facts on the log for the restart.")
@click.option("--runs", default=100, show_default=True, help="Runs for submit → RUNNING.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def control(facts: int, runs: int, as_json: bool) -> None:
    """Submit to RUNNING, admissions per second, restart on a long log."""
    import asyncio
    import json

    from runspine.bench.control.control import bench_control

    report = asyncio.run(bench_control(facts, runs, lambda line: click.echo(line, err=True)))
    click.echo(json.dumps(report.as_json()) if as_json else report.as_markdown())
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option(
    "--rounds", default=9, show_default=True, help="Rounds on the trivial env, with and without capture."
)
@click.option("--iterations", default=300, show_default=True, help="PPO iterations of 512 steps.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def trainer(rounds: int, iterations: int, as_json: bool) -> None:
    """Cost of capturing every step for the trainer, compared with tensorboardX and wandb."""
    import json

    from runspine.bench.trainers.capture import bench_trainer

    report = bench_trainer(rounds, iterations, lambda line: click.echo(line, err=True))
    click.echo(json.dumps(report.as_json()) if as_json else report.as_markdown())
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--quick", is_flag=True, help="One short round of each: under two minutes.")
@click.option("--rounds", default=3, show_default=True, help="Rounds of each measurement.")
@click.option("--steps", default=2_000_000, show_default=True, help="Steps of all trainers in one round.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def telemetry(quick: bool, rounds: int, steps: int, as_json: bool) -> None:
    """Durable steps per second and at a subscriber, compared with W&B, tensorboardX and MLflow."""
    import asyncio
    import json

    from runspine.bench.kit.screen import show, stages
    from runspine.bench.telemetry.telemetry import QUICK, Size, bench_telemetry
    from runspine.bench.telemetry.telemetry import stages as count

    size = QUICK if quick else Size(rounds=rounds, steps=steps)
    with stages(count(size), quiet=as_json) as on_stage:
        report = asyncio.run(bench_telemetry(size, on_stage))
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--iterations", default=60, show_default=True, help="PPO iterations of 1,024 steps.")
@click.option("--seconds", default=10.0, show_default=True, help="Seconds of the memory measurement.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def frames(iterations: int, seconds: float, as_json: bool) -> None:
    """Cost of live frames for the trainer with no, one and ten viewers; and memory."""
    import json

    from runspine.bench.kit.screen import show, stages
    from runspine.bench.pages.frames import bench_frames

    with stages(6, quiet=as_json) as on_stage:
        report = bench_frames(iterations, seconds, on_stage)
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--quick", is_flag=True, help="Use a hundredth of the points.")
@click.option("--points", default=100_000_000, show_default=True, help="Points of the series.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def query(quick: bool, points: int, as_json: bool) -> None:
    """Latency of charting and zooming a very long series, and memory of the service."""
    import asyncio
    import json

    from runspine.bench.kit.screen import show, stages
    from runspine.bench.telemetry.query import bench_query

    with stages(3, quiet=as_json) as on_stage:
        report = asyncio.run(bench_query(points // 100 if quick else points, on_stage))
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--quick", is_flag=True, help="10 runs of 100,000 points.")
@click.option("--runs", default=100, show_default=True, help="Runs.")
@click.option("--points", default=1_000_000, show_default=True, help="Points of each run.")
@click.option(
    "--peers", envvar="RUNSPINE_BENCH_PEERS", default="", help="Python interpreter with aim and pandas."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def frame(quick: bool, runs: int, points: int, peers: str, as_json: bool) -> None:
    """Every point of many runs into a data frame, compared with W&B, MLflow and Aim."""
    import asyncio
    import json

    from runspine.bench.kit.screen import show, stages
    from runspine.bench.telemetry.frame import bench_frame

    with stages(6, quiet=as_json) as on_stage:
        size = (10, 100_000) if quick else (runs, points)
        report = asyncio.run(bench_frame(*size, peers, on_stage))
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--steps", default=2_000_000, show_default=True, help="Steps on the stream.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def storage(steps: int, as_json: bool) -> None:
    """Bytes of a stored step, and throughput of archiving a stream."""
    import asyncio
    import json

    from runspine.bench.kit.screen import show, stages
    from runspine.bench.telemetry.store import bench_telemetry_store

    with stages(3, quiet=as_json) as on_stage:
        report = asyncio.run(bench_telemetry_store(steps, on_stage))
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.argument("parts", nargs=-1)
@click.option(
    "--size", type=click.Choice(["quick", "full", "tiny"]), default="quick", show_default=True,
    help="Minutes (quick), an hour (full), or a smoke test (tiny).",
)  # fmt: skip
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("build/bench"),
    show_default=True,
    help="Output folder.",
)
@click.option(
    "--peers",
    envvar="RUNSPINE_BENCH_PEERS",
    default="",
    help="Python interpreter with aim, trackio and ray[default].",
)
@click.option("--only-write", is_flag=True, help="Write the report from existing results; measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def report(parts: tuple[str, ...], size: str, out: Path, peers: str, only_write: bool, as_json: bool) -> None:
    """Run all benchmarks and write a report as Markdown, JSON and plots.

    Only PARTS are measured again when given. A missed target is reported and is not an error; a part
    that cannot be measured is.
    """
    import json
    import shutil

    from runspine.bench.report.gather import gathered, measure
    from runspine.bench.report.page import as_json as report_json
    from runspine.bench.report.page import write
    from runspine.bench.report.parts import PARTS

    if unknown := [name for name in parts if name not in PARTS]:
        raise click.UsageError(f"unknown part {unknown[0]!r}; known parts: {', '.join(PARTS)}")
    if peers and not shutil.which(peers):
        raise click.UsageError(f"--peers: {peers!r} is not a program; name a Python, or leave it out")
    if not only_write:
        measure(out, parts or tuple(PARTS), size, peers, lambda line: click.echo(line, err=True))
    taken = gathered(out)
    if not taken:
        raise click.UsageError(f"no results in {out}")
    answered = write(out, taken)
    if as_json:
        click.echo(json.dumps(report_json(taken, answered)))
    else:
        for each in answered:
            mark = {True: "met", False: "NOT MET", None: "not measured"}[each.met]
            click.echo(f"{mark:13} {each.target.what} ({each.target.text})")
        click.echo(f"report: {out / 'report.md'}")
    raise SystemExit(1 if any(part.trouble for part in taken.values()) else 0)
