"""`runspine submit`: a run file, a grid of runs, or a command line."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from runspine.cli.ask import pairs
from runspine.cli.edge import json_option
from runspine.cli.follow import follow_group, follow_run
from runspine.cli.screen import is_live, note, say, say_json
from runspine.cli.text import escaped, escaped_block
from runspine.client import Client
from runspine.errors import Invalid, RunspineError
from runspine.ids import new_ulid
from runspine.plain import to_plain
from runspine.runfile import RunFile, build, group_labels, load, parse, read_bytes, read_seeds, spec_yaml
from runspine.strict_yaml import MAX_BYTES, MapNode, node_of
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import SubmitResponse

_COMMAND = "runspine.command"

set_option = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a field: --set params.gamma=0.99"
)

seeds_option = click.option("--seeds", metavar="1..5", help="One run for each seed: 1..5, or 1,2,7.")


class _FileOrCommand(click.Command):
    """Everything after `--` is the command to run, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            dashes = args.index("--")
            ctx.meta[_COMMAND] = args[dashes + 1 :]
            args = args[:dashes]
        return super().parse_args(ctx, args)


@click.command(cls=_FileOrCommand)
@click.argument("file", required=False, metavar="FILE | - | -- COMMAND...")
@set_option
@seeds_option
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label to filter by; repeat for more."
)
@click.option("--name", help="Human name of the run.")
@click.option("--priority", type=click.IntRange(0, 100), help="0 (last) to 100 (first).")
@click.option("--pool", help="Pool of workers that may take it.")
@click.option("--runner", help="Which runner; without FILE, what runs COMMAND.")
@click.option("--key", default="", help="The same key gives the same run again, not a second one.")
@click.option("--watch", is_flag=True, help="Follow until the end; the exit code tells the outcome.")
@click.option("--dry-run", is_flag=True, help="Check everything, submit nothing.")
@json_option
@click.pass_context
def submit(
    ctx: click.Context,
    /,
    file: str | None,
    sets: tuple[str, ...],
    seeds: str | None,
    key: str,
    watch: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a run.

    \b
    runspine submit run.yaml --set seed=7 --watch
    runspine submit run.yaml --seeds 1..5
    runspine submit --runner script -- python train.py --lr 3
    """
    asked = _read(file, ctx.meta.get(_COMMAND), [*_as_sets(options), *sets, *seed_sets(seeds)])
    key = key or new_ulid()
    if asked.several:
        group_labels(asked, group_name(file, key))
    with Client() as client:
        if dry_run:
            _dry_run(client, asked, as_json)
            return
        answers = submit_all(client, asked, key, as_json)
        report(asked, answers, as_json)
        if watch:
            runs = [answer.run for answer in answers]
            ctx.exit(
                follow_group(client, runs, as_json) if asked.several else follow_run(client, runs[0], as_json)
            )


def group_name(file: str | None, key: str) -> str:
    """Follows from the key, so that asking again under the same key asks for the same runs."""
    stem = "stdin" if file == "-" else Path(file or "command").stem
    return f"{stem[:40]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def submit_all(client: Client, file: RunFile, key: str, as_json: bool) -> list[SubmitResponse]:
    """Submit each run under a key of its own, so that the whole can be asked for again."""
    answers: list[SubmitResponse] = []
    steps = (
        _with_bar(len(file.specs), "submitting")
        if file.several and is_live(as_json)
        else range(len(file.specs))
    )
    for index in steps:
        try:
            settle_dataset(client, file.specs[index])
            answers.append(client.submit(file.specs[index], f"{key}-{index + 1}" if file.several else key))
        except Invalid as error:
            _partly(answers, file, key)
            raise Invalid(error.message, file.locate(error.violations)) from error
        except RunspineError:
            _partly(answers, file, key)
            raise
    return answers


def settle_dataset(client: Client, spec: RunSpec) -> None:
    """A dataset is named in a run file; what counts is its digest at this moment."""
    if spec.HasField("dataset"):
        from runspine.datasets.registry import settle

        settle(client, spec)


def _partly(answers: Sequence[SubmitResponse], file: RunFile, key: str) -> None:
    if answers:
        note(
            f"{len(answers)} of {len(file.specs)} runs were submitted; "
            f"the same command with --key {key} goes on without making any of them twice"
        )


def _read(file: str | None, command: list[str] | None, sets: list[str]) -> RunFile:
    if command is None and file is None:
        raise click.UsageError("Give a run file, `-` for standard input, or `-- COMMAND`.")
    if command is None:
        return read_file(str(file), sets)
    if file is not None:
        raise click.UsageError(f"Give a run file ({file}) or a command after `--`, not both.")
    if not command:
        raise click.UsageError("No command after `--`.")
    root = MapNode(
        {"runner": node_of("script", "--runner"), "command": node_of(command, "command line")}, "command line"
    )
    return build(root, folder=Path.cwd(), sets=sets, source="the command")


def read_file(name: str, sets: list[str]) -> RunFile:
    """A run file, or standard input for `-`."""
    if name == "-":
        text = read_bytes(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin")
        return parse(text, source="stdin", folder=Path.cwd(), sets=sets)
    return load(Path(name), sets)


def _as_sets(options: dict[str, Any]) -> list[str]:
    """The options for single fields are overrides like any other, quoted so that text stays text."""
    sets = [f"labels.{key}={_quoted(value)}" for key, value in pairs(options["labels"], "--label").items()]
    for field in ("name", "priority", "pool", "runner"):
        if options[field] is not None:
            sets.append(f"{field}={_quoted(options[field]) if field != 'priority' else options[field]}")
    return sets


def seed_sets(seeds: str | None) -> list[str]:
    """`--seeds` as the override it stands for."""
    return [] if seeds is None else [f"seeds={read_seeds(seeds, '--seeds')}"]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _with_bar(count: int, title: str) -> Any:
    from rich.progress import track

    from runspine.cli.screen import console

    return track(range(count), description=title, console=console(stderr=True), transient=True)


def _dry_run(client: Client, file: RunFile, as_json: bool) -> None:
    checked = [check(client, file, index) for index in range(len(file.specs))]
    if as_json:
        say_json({"runs": [{"spec": to_plain(spec), "notices": notices} for spec, notices in checked]})
        return
    for (spec, notices), variation in zip(checked, file.variations, strict=True):
        title = ", ".join(f"{k}={v}" for k, v in variation.items())
        if title:
            say(f"# {escaped(title)}", "bold")
        say(escaped_block(spec_yaml(spec).rstrip("\n")))
        for notice in notices:
            note(f"notice: {escaped(notice)}")
    note(f"{len(checked)} run{'s' if file.several else ''} would be submitted; nothing was")


def check(client: Client, file: RunFile, index: int) -> tuple[RunSpec, list[str]]:
    """One run of the file with every default, and what should be known about it."""
    try:
        settle_dataset(client, file.specs[index])
        answer = client.validate(file.specs[index])
    except Invalid as error:
        raise Invalid(error.message, file.locate(error.violations)) from error
    return answer.spec, list(answer.notices)


def report(file: RunFile, answers: Sequence[SubmitResponse], as_json: bool) -> None:
    group = answers[0].run.labels.get("group", "") if file.several else ""
    if as_json:
        runs = [{"run": to_plain(a.run), "created": a.created} for a in answers]
        say_json({"runs": runs, "group": group or None})
        return
    for answer, variation in zip(answers, file.variations, strict=True):
        say(submitted_line(answer.run, answer.created, variation))
    if group:
        note(f"{len(answers)} runs; list them with: runspine ls --label group={group}")


def submitted_line(run: Run, created: bool, variation: dict[str, str]) -> str:
    varied = "".join(f"  {k}={v}" for k, v in variation.items())
    repeated = "" if created else "  (submitted before under this key)"
    return f"{run.id}  {escaped(run.name)}{escaped(varied)}{repeated}"
