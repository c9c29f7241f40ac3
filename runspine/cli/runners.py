"""`runspine runners`: what can be run, in one table; one runner in detail; a runner put to the test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runspine.cli.edge import FAILED, OK, json_option
from runspine.cli.screen import Cell, note, say, say_json, table
from runspine.cli.text import escaped, number
from runspine.client import Client
from runspine.errors import NotFound
from runspine.nearest import not_accepted
from runspine.plain import enum_word, plain_value, to_plain
from runspine.runfile import spec_yaml
from runspine.wire.v1.runner_pb2 import Param, ParamType, RunnerInfo
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


class NamesToo(click.Group):
    """A word that is no command of it is the name of a runner to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)


@click.group(cls=NamesToo, invoke_without_command=True, subcommand_metavar="[NAME | check NAME...]")
@json_option
@click.pass_context
def runners(ctx: click.Context, as_json: bool) -> None:
    """List what can be run and what each runner can do; NAME shows one with its parameters."""
    if ctx.invoked_subcommand is None:
        _list(as_json)


@runners.command(hidden=True)
@click.argument("name")
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """One runner with its algorithms and parameters."""
    as_json = as_json or bool(ctx.parent and ctx.parent.params["as_json"])
    found = _found()
    if name not in found:
        raise NotFound(f"runner {not_accepted(name, found)}" if found else "no worker offers any runner now")
    if as_json:
        say_json(to_plain(found[name]))
    else:
        _show_runner(found[name])


@runners.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--spec", "file", metavar="FILE", help="Run file to try it with, instead of its own example.")
@click.option(
    "--patience",
    type=click.FloatRange(1),
    default=120.0,
    show_default=True,
    help="Longest wait for anything that should happen, in seconds.",
)
@click.option("--keep", is_flag=True, help="Leave the stack's directory behind, with logs and runs.")
@json_option
def check(names: tuple[str, ...], file: str | None, patience: float, keep: bool, as_json: bool) -> int:
    """Put runners through launch, stream, cancel, fail, resume and evaluate.

    On a stack of its own, which is gone afterwards. Exit code 1 when a promise is not kept.
    """
    import asyncio
    import shutil
    import tempfile

    from runspine.conformance.result import Outcome
    from runspine.conformance.suite import check_runners

    home = Path(tempfile.mkdtemp(prefix="runspine-check-"))
    spec = _spec(file) if file else None
    try:
        if not as_json:
            note("starting a stack for the check")
        hear = _silence if as_json else _tell
        results = asyncio.run(check_runners(names, home, spec=spec, patience=patience, hear=hear))
    finally:
        if keep:
            note(f"the stack's directory stays: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    if as_json:
        say_json({"results": [result.plain() for result in results]})
    else:
        _report(results)
    return FAILED if any(result.outcome is Outcome.FAILED for result in results) else OK


def _spec(file: str) -> RunSpec:
    from runspine.runfile import load

    return load(Path(file)).specs[0]


def _tell(runner: str, check: str, result: Result | None) -> None:
    if result is None:
        note(f"  {runner}: {check} …")


def _silence(runner: str, check: str, result: Result | None) -> None:
    """All of it comes at the end."""


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
        say()
        say(f"{escaped(result.runner)}, {result.check}: {escaped(result.seen)}", "red")
        say(f"  to do: {escaped(result.remedy)}")
    say()
    names = sorted({result.runner for result in results} - {result.runner for result in bad})
    if names:
        say(f"conform: {', '.join(names)}", "green")


def _found() -> dict[str, RunnerInfo]:
    with Client() as client:
        return {info.name: info for info in client.runners()}


def _list(as_json: bool) -> None:
    found = _found()
    if as_json:
        say_json({"runners": [to_plain(info) for info in found.values()]})
        return
    if not found:
        note("no worker offers any runner now")
        return
    table(HEADINGS, [_row(info) for info in found.values()])
    say()
    for info in found.values():
        say(f"{info.name:<12} {escaped(info.summary)}")
    for info in found.values():
        if info.not_ready:
            say(f"{info.name} is not ready: {escaped(info.not_ready)}", "red")


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
    say(escaped(info.name), "bold")
    say(f"  {escaped(info.summary)}")
    say(f"  does       {', '.join(_abilities(info)) or 'nothing yet'}")
    if info.not_ready:
        say(f"  not ready  {escaped(info.not_ready)}", "red")
    if info.takes_command:
        say("  command    required: program and arguments")
    for title, words in (
        ("envs", info.envs),
        ("actions", info.action_spaces),
        ("observes", info.observation_spaces),
        ("services", info.services),
        ("datasets", info.datasets),
    ):
        if words:
            say(f"  {title:<10} {escaped(_shortened(words))}")
    _params("Parameters", info.params)
    if info.open_params:
        say("  any other parameter is passed on as it is")
    for algo in info.algos:
        _params(f"{algo.name}: {algo.summary}" if algo.summary else algo.name, algo.params)
    if info.HasField("example"):
        say()
        say("A run file to begin with", "bold")
        example = RunSpec(runner=info.name)
        example.MergeFrom(info.example)
        say("\n".join(f"  {escaped(line)}" for line in spec_yaml(example).splitlines()))


def _shortened(words: Sequence[str]) -> str:
    shown = list(words[:30])
    return ", ".join(shown) + (f" and {len(words) - len(shown)} more" if len(words) > len(shown) else "")


def _params(title: str, params: Sequence[Param]) -> None:
    say()
    say(escaped(title), "bold")
    if not params:
        say("  no parameters")
        return
    table(("NAME", "TYPE", "DEFAULT", "ACCEPTED", "WHAT IT IS"), [_param(param) for param in params])


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
