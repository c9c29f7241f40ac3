"""`runspine bench`: measure what we promise, beside what the machine itself can do."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def bench() -> None:
    """Measure what Runspine promises, on this machine, beside its limits."""


@bench.command()
@click.option("--facts", default=1_000_000, show_default=True, help="length of the log for the restart")
@click.option("--runs", default=100, show_default=True, help="runs for submit → RUNNING")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def control(facts: int, runs: int, as_json: bool) -> None:
    """Submit to RUNNING, admissions per second, restart on a long log."""
    import asyncio
    import json

    from bench.control import bench_control

    report = asyncio.run(bench_control(facts, runs, lambda line: click.echo(line, err=True)))
    click.echo(json.dumps(report.as_json()) if as_json else report.as_markdown())
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--rounds", default=9, show_default=True, help="rounds on the trivial env, bare and captured")
@click.option("--iterations", default=300, show_default=True, help="PPO iterations of 512 steps each")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def trainer(rounds: int, iterations: int, as_json: bool) -> None:
    """What capturing every step costs the trainer, beside tensorboardX and wandb."""
    import json

    from bench.trainer import bench_trainer

    report = bench_trainer(rounds, iterations, lambda line: click.echo(line, err=True))
    click.echo(json.dumps(report.as_json()) if as_json else report.as_markdown())
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--quick", is_flag=True, help="one short round of each: under two minutes")
@click.option("--rounds", default=3, show_default=True, help="how often each is measured, in turn")
@click.option("--steps", default=2_000_000, show_default=True, help="steps of all trainers in one round")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def telemetry(quick: bool, rounds: int, steps: int, as_json: bool) -> None:
    """Steps durable end to end and at a subscriber, beside W&B, tensorboardX and MLflow."""
    import asyncio
    import json

    from bench.screen import show, stages
    from bench.telemetry import QUICK, Size, bench_telemetry
    from bench.telemetry import stages as count

    size = QUICK if quick else Size(rounds=rounds, steps=steps)
    with stages(count(size), quiet=as_json) as tell:
        report = asyncio.run(bench_telemetry(size, tell))
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--iterations", default=60, show_default=True, help="PPO iterations of 1,024 steps each")
@click.option("--seconds", default=10.0, show_default=True, help="how long memory is watched")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def frames(iterations: int, seconds: float, as_json: bool) -> None:
    """What live frames cost the trainer: nobody looking, one viewer, ten; and memory."""
    import json

    from bench.frames import bench_frames
    from bench.screen import show, stages

    with stages(6, quiet=as_json) as tell:
        report = bench_frames(iterations, seconds, tell)
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--quick", is_flag=True, help="a hundredth of the points")
@click.option("--points", default=100_000_000, show_default=True, help="length of the series")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def query(quick: bool, points: int, as_json: bool) -> None:
    """Chart a very long series and zoom into it; memory of the service meanwhile."""
    import asyncio
    import json

    from bench.screen import show, stages
    from bench.telemetry_query import bench_query

    with stages(3, quiet=as_json) as tell:
        report = asyncio.run(bench_query(points // 100 if quick else points, tell))
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.option("--steps", default=2_000_000, show_default=True, help="steps that wait on the stream")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def storage(steps: int, as_json: bool) -> None:
    """Bytes of a step at rest, and how fast a waiting stream is archived."""
    import asyncio
    import json

    from bench.screen import show, stages
    from bench.telemetry_store import bench_telemetry_store

    with stages(3, quiet=as_json) as tell:
        report = asyncio.run(bench_telemetry_store(steps, tell))
    click.echo(json.dumps(report.as_json())) if as_json else show(report)
    raise SystemExit(1 if any(figure.met is False for figure in report.figures) else 0)


@bench.command()
@click.argument("parts", nargs=-1)
@click.option(
    "--size", type=click.Choice(["quick", "full", "tiny"]), default="quick", show_default=True,
    help="minutes, an hour, or only to see that it works",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("build/bench"), show_default=True, help="folder"
)
@click.option(
    "--peers",
    envvar="RUNSPINE_BENCH_PEERS",
    default="",
    help="a Python that has aim, trackio and ray[default]",
)
@click.option("--only-write", is_flag=True, help="measure nothing: write the report again from what is there")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON, on standard output too")
def report(parts: tuple[str, ...], size: str, out: Path, peers: str, only_write: bool, as_json: bool) -> None:
    """Everything in one report: Markdown, JSON and plots, beside other tools.

    PARTS are measured again and the others kept as they are; without any, all are measured from scratch.
    A target that is missed is in the report and no error; a part that could not be measured is one.
    """
    import json

    from bench.report.gather import gathered, measure
    from bench.report.page import as_json as told
    from bench.report.page import write
    from bench.report.parts import PARTS

    if unknown := [name for name in parts if name not in PARTS]:
        raise click.UsageError(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    if not only_write:
        measure(out, parts or tuple(PARTS), size, peers, lambda line: click.echo(line, err=True))
    taken = gathered(out)
    if not taken:
        raise click.UsageError(f"nothing was measured in {out}")
    answered = write(out, taken)
    if as_json:
        click.echo(json.dumps(told(taken, answered)))
    else:
        for each in answered:
            mark = {True: "met", False: "NOT MET", None: "not measured"}[each.met]
            click.echo(f"{mark:13} {each.target.what} ({each.target.said})")
        click.echo(f"the report: {out / 'report.md'}")
    raise SystemExit(1 if any(part.trouble for part in taken.values()) else 0)
