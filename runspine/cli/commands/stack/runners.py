"""`runspine runners`: list, show and test runners."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.screen import Cell, echo, echo_json, note, table
from runspine.domain.runner_abilities import can_warm_start
from runspine.errors import RunNotFoundError
from runspine.rpc.trainer_client import Client
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import enum_word, plain_value, to_plain
from runspine.spec.run_file import spec_yaml
from runspine.text.values import escaped, number
from runspine.wire.v1.runner_pb2 import AlgoInfo, Param, ParamType, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, TRAIN, Mode, RunSpec

if TYPE_CHECKING:
    from runspine.conformance.result import Result

HEADINGS = (
    "RUNNER",
    "READY",
    "TRAIN",
    "EVALUATE",
    "PLAY",
    "RESUME",
    "WARM START",
    "VIDEO",
    "GPU",
    "ACTIONS",
    "NEEDS",
)
YES, NO = Cell("yes", "green"), Cell("-", "dim")


class RunnerNameGroup(click.Group):
    """Treats a first argument that is not a command as the name of a runner to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)


@click.group(
    cls=RunnerNameGroup,
    invoke_without_command=True,
    subcommand_metavar="[NAME [--algo ALGO] | check NAME...]",
)
@json_option
@click.pass_context
def runners(ctx: click.Context, as_json: bool) -> None:
    """List runners and their capabilities; NAME shows one with its parameters.

    With --algo, NAME explains one algorithm: its parameters, settings by env, pitfalls.
    """
    if ctx.invoked_subcommand is None:
        _list(as_json)


@runners.command(hidden=True)
@click.argument("name")
@click.option("--algo", metavar="ALGO", help="Explain one algorithm: parameters, settings by env, pitfalls.")
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, algo: str | None, as_json: bool) -> None:
    """Show one runner with its algorithms and parameters, or one algorithm with its help."""
    as_json = as_json or bool(ctx.parent and ctx.parent.params["as_json"])
    info = _runner(name, with_help=as_json or algo is not None)
    if algo is not None:
        _show_algorithm(info, algo, as_json)
    elif as_json:
        echo_json(to_plain(info))
    else:
        _show_runner(info)


def _runner(name: str, *, with_help: bool) -> RunnerInfo:
    with Client() as client:
        for info in client.runners(name, with_help=with_help):
            return info
    found = _found()
    raise RunNotFoundError(f"runner {not_accepted(name, found)}" if found else "no worker offers a runner")


@runners.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--spec", "file", metavar="FILE", help="Run file to test with, instead of the runner's example."
)
@click.option(
    "--patience",
    type=click.FloatRange(1),
    default=120.0,
    show_default=True,
    help="Timeout of each expectation, in seconds.",
)
@click.option("--keep", is_flag=True, help="Keep the directory of the stack, with logs and runs.")
@json_option
def check(names: tuple[str, ...], file: str | None, patience: float, keep: bool, as_json: bool) -> int:
    """Test runners for conformance: launch, stream, cancel, fail, resume and evaluate.

    The test runs on a temporary stack. Exit code 1 when a check fails.
    """
    import asyncio
    import shutil
    import tempfile

    from runspine.conformance.result import CheckOutcome
    from runspine.conformance.suite import check_runners

    home = Path(tempfile.mkdtemp(prefix="runspine-check-"))
    spec = _spec(file) if file else None
    try:
        if not as_json:
            note("starting a stack for the check")
        on_check = _ignore_check if as_json else _note_check
        results = asyncio.run(check_runners(names, home, spec=spec, patience=patience, on_check=on_check))
    finally:
        if keep:
            note(f"the directory of the stack is kept: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    if as_json:
        echo_json({"results": [result.plain() for result in results]})
    else:
        _report(results)
    return FAILED if any(result.outcome is CheckOutcome.FAILED for result in results) else OK


def _spec(file: str) -> RunSpec:
    from runspine.spec.run_file import load

    return load(Path(file)).specs[0]


def _note_check(runner: str, check: str, result: Result | None) -> None:
    if result is None:
        note(f"  {runner}: {check} …")


def _ignore_check(runner: str, check: str, result: Result | None) -> None:
    """No progress: with --json only the result is printed."""


def _report(results: Sequence[Result]) -> None:
    looks = {"passed": Cell("✓ passed", "green"), "failed": Cell("✗ failed", "red")}
    rows: list[list[Cell | str]] = [
        [
            result.runner,
            result.check,
            looks.get(result.outcome.value, Cell("- skipped", "dim")),
            f"{result.seconds:.1f} s" if result.seconds else "",
            result.seen,
        ]
        for result in results
    ]
    table(("RUNNER", "CHECK", "RESULT", "TIME", "SEEN"), rows, right=("TIME",))
    bad = [result for result in results if result.remedy]
    for result in bad:
        echo()
        echo(f"{escaped(result.runner)}, {result.check}: {escaped(result.seen)}", "red")
        echo(f"  remedy: {escaped(result.remedy)}")
    echo()
    names = sorted({result.runner for result in results} - {result.runner for result in bad})
    if names:
        echo(f"conform: {', '.join(names)}", "green")


def _found() -> dict[str, RunnerInfo]:
    with Client() as client:
        return {info.name: info for info in client.runners()}


def _list(as_json: bool) -> None:
    found = _found()
    if as_json:
        echo_json({"runners": [to_plain(info) for info in found.values()]})
        return
    if not found:
        note("no worker offers a runner")
        return
    table(HEADINGS, [_row(info) for info in found.values()])
    echo()
    for info in found.values():
        echo(f"{info.name:<12} {escaped(info.summary)}")
    for info in found.values():
        if info.not_ready:
            echo(f"{info.name} is not ready: {escaped(info.not_ready)}", "red")


def _row(info: RunnerInfo) -> list[Cell | str]:
    needs = [*info.services, *(f"a {kind} dataset" for kind in info.datasets)]
    if info.takes_command:
        needs.append("a command")
    gpu = Cell("needed", "yellow") if info.needs_gpu else _yes(info.uses_gpu)
    return [
        info.name,
        Cell("no", "red") if info.not_ready else YES,
        _yes(TRAIN in info.modes),
        _yes(EVALUATE in info.modes),
        _yes(PLAY in info.modes),
        _yes(info.resumes),
        _yes(info.warm_starts),
        _yes(info.videos),
        gpu,
        ", ".join(info.action_spaces) or "any",
        ", ".join(needs) or "-",
    ]


def _yes(can: bool) -> Cell:
    return YES if can else NO


def _abilities(info: RunnerInfo) -> list[str]:
    words = [enum_word(Mode.DESCRIPTOR, mode) for mode in info.modes]
    more = {"resume": info.resumes, "warm start": info.warm_starts, "video": info.videos}
    return [*words, *(word for word, can in more.items() if can)]


def _show_runner(info: RunnerInfo) -> None:
    echo(escaped(info.name), "bold")
    echo(f"  {escaped(info.summary)}")
    echo(f"  does       {', '.join(_abilities(info)) or 'nothing'}")
    if info.not_ready:
        echo(f"  not ready  {escaped(info.not_ready)}", "red")
    if info.takes_command:
        echo("  command    required: program and arguments")
    for title, words in (
        ("envs", info.envs),
        ("actions", info.action_spaces),
        ("observes", info.observation_spaces),
        ("services", info.services),
        ("datasets", info.datasets),
    ):
        if words:
            echo(f"  {title:<10} {escaped(_shortened(words))}")
    _params("Parameters", info.params)
    if info.open_params:
        echo("  other parameters are passed on unchanged")
    for algo in info.algos:
        cold = info.warm_starts and not can_warm_start(info, algo.name)
        _params(f"{_title(algo)} (no warm start)" if cold else _title(algo), algo.params)
    if info.algos:
        echo()
        command = f"runspine runners {escaped(info.name)} --algo {escaped(info.algos[0].name)}"
        echo(f"settings by env, and pitfalls: {command}", "dim")
    if info.HasField("example"):
        echo()
        echo("Example run file", "bold")
        example = RunSpec(runner=info.name)
        example.MergeFrom(info.example)
        echo("\n".join(f"  {escaped(line)}" for line in spec_yaml(example).splitlines()))


def _show_algorithm(info: RunnerInfo, name: str, as_json: bool) -> None:
    found = {algo.name: algo for algo in info.algos}
    if name not in found:
        raise RunNotFoundError(
            f"algorithm {not_accepted(name, found)}" if found else f"runner {info.name} has no algorithms"
        )
    algo = found[name]
    if as_json:
        echo_json(to_plain(algo))
        return
    _params(_title(algo), algo.params)
    for line in algo.help.splitlines() or ["no help: its runner gives none"]:
        echo(escaped(line))


def _title(algo: AlgoInfo) -> str:
    return f"{algo.name}: {algo.summary}" if algo.summary else algo.name


def _shortened(words: Sequence[str]) -> str:
    shown = list(words[:30])
    return ", ".join(shown) + (f" and {len(words) - len(shown)} more" if len(words) > len(shown) else "")


def _params(title: str, params: Sequence[Param]) -> None:
    echo()
    echo(escaped(title), "bold")
    if not params:
        echo("  no parameters")
        return
    table(("NAME", "TYPE", "DEFAULT", "ACCEPTED", "DESCRIPTION"), [_param(param) for param in params])


def _param(param: Param) -> list[Cell | str]:
    default = str(plain_value(param.default)) if param.HasField("default") else ""
    return [
        param.name,
        enum_word(ParamType.DESCRIPTOR, param.type),
        "required" if param.required else default,
        _accepted(param),
        param.help,
    ]


def _accepted(param: Param) -> str:
    if param.choices:
        return ", ".join(param.choices)
    low = number(param.minimum) if param.HasField("minimum") else ""
    high = number(param.maximum) if param.HasField("maximum") else ""
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}" if high else ""
