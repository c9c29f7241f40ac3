"""`runspine submit`: submit a run file, a grid of runs or a command."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.project_code import attach_code, code_options, read_code_options
from runspine.cli.lookup.project_packages import packages_option
from runspine.cli.lookup.run import parse_pairs
from runspine.cli.ui.follow import follow_runs
from runspine.cli.ui.screen import echo, echo_json, is_live, note
from runspine.errors import InvalidError, RunspineError
from runspine.ids import new_ulid
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.spec.run_file import (
    RunFile,
    build,
    group_labels,
    load,
    parse,
    read_bytes,
    read_seeds,
    spec_yaml,
)
from runspine.spec.strict_yaml import MAX_BYTES, MapNode, node_of
from runspine.text.preflight import preflight_lines
from runspine.text.values import escaped, escaped_block
from runspine.wire.v1.preflight_pb2 import PREFLIGHT_UNKNOWN, Preflight
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import SubmitResponse, ValidateResponse

_COMMAND = "runspine.command"

set_option = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a field: --set params.gamma=0.99"
)

seeds_option = click.option("--seeds", metavar="1..5", help="One run for each seed: 1..5, or 1,2,7.")


class _FileOrCommand(click.Command):
    """Takes everything after `--` as the command to run."""

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
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the run; repeatable.")
@click.option("--name", help="Name of the run.")
@click.option("--priority", type=click.IntRange(0, 100), help="Priority from 0 (last) to 100 (first).")
@click.option("--pool", help="Pool whose workers may claim the run.")
@click.option("--runner", help="Runner; without FILE, the runner of COMMAND.")
@click.option("--key", default="", help="Idempotency key: the same key returns the same run.")
@click.option("--watch", is_flag=True, help="Follow to the end; the exit code is the outcome.")
@click.option("--dry-run", is_flag=True, help="Validate only; submit nothing.")
@code_options
@packages_option
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
    packages: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a run file, a grid of runs or a command.

    \b
    runspine submit run.yaml --set seed=7 --watch
    runspine submit run.yaml --seeds 1..5
    runspine submit --runner script -- python train.py --lr 3

    The project's folder is stored as it is now, and a worker runs that: later edits do not change it.
    """
    code = read_code_options(options)
    run_file = _read(file, ctx.meta.get(_COMMAND), [*_as_sets(options), *sets, *seed_sets(seeds)])
    key = key or new_ulid()
    if run_file.several:
        group_labels(run_file, group_name(file, key))
    with Client() as client:
        attach_code(client, run_file, code, as_json, packages)
        if dry_run:
            _dry_run(client, run_file, as_json)
            return
        answers = submit_all(client, run_file, key, as_json)
        report(run_file, answers, as_json)
        if watch:
            runs = [answer.run for answer in answers]
            ctx.exit(follow_runs(client, runs, as_json))


def group_name(file: str | None, key: str) -> str:
    """Group label derived from the key, so that a retry under the same key gets the same runs."""
    stem = "stdin" if file == "-" else Path(file or "command").stem
    return f"{stem[:40]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def submit_all(client: Client, file: RunFile, key: str, as_json: bool) -> list[SubmitResponse]:
    """Submit each run under its own key, so that the whole submission can be retried."""
    answers: list[SubmitResponse] = []
    steps = (
        _with_bar(len(file.specs), "submitting")
        if file.several and is_live(as_json)
        else range(len(file.specs))
    )
    for index in steps:
        try:
            answers.append(client.submit(file.specs[index], f"{key}-{index + 1}" if file.several else key))
        except InvalidError as error:
            _note_partial(answers, file, key)
            raise InvalidError(error.message, file.locate(error.violations)) from error
        except RunspineError:
            _note_partial(answers, file, key)
            raise
    return answers


def _note_partial(answers: Sequence[SubmitResponse], file: RunFile, key: str) -> None:
    if answers:
        note(
            f"{len(answers)} of {len(file.specs)} runs were submitted; "
            f"retry with --key {key} to submit the others without duplicates"
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
    """Read a run file, or standard input for `-`."""
    if name == "-":
        text = read_bytes(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin")
        return parse(text, source="stdin", folder=Path.cwd(), sets=sets)
    return load(Path(name), sets)


def _as_sets(options: dict[str, Any]) -> list[str]:
    """Options for single fields as --set overrides, quoted so that text stays text."""
    sets = [
        f"labels.{key}={_quoted(value)}" for key, value in parse_pairs(options["labels"], "--label").items()
    ]
    for field in ("name", "priority", "pool", "runner"):
        if options[field] is not None:
            sets.append(f"{field}={_quoted(options[field]) if field != 'priority' else options[field]}")
    return sets


def seed_sets(seeds: str | None) -> list[str]:
    """`--seeds` as a --set override."""
    return [] if seeds is None else [f"seeds={read_seeds(seeds, '--seeds')}"]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _with_bar(count: int, title: str) -> Any:
    from rich.progress import track

    from runspine.cli.ui.screen import console

    return track(range(count), description=title, console=console(stderr=True), transient=True)


def _dry_run(client: Client, file: RunFile, as_json: bool) -> None:
    checked = [check(client, file, index) for index in range(len(file.specs))]
    if as_json:
        echo_json({"runs": [checked_plain(answer) for answer in checked]})
        return
    for answer, variation in zip(checked, file.variations, strict=True):
        title = ", ".join(f"{k}={v}" for k, v in variation.items())
        if title:
            echo(f"# {escaped(title)}", "bold")
        echo(escaped_block(spec_yaml(answer.spec).rstrip("\n")))
        note_checks(answer.notices, answer.preflight)
    note(f"{len(checked)} run{'s' if file.several else ''} would be submitted (dry run)")


def check(client: Client, file: RunFile, index: int) -> ValidateResponse:
    """Validate one run of the file; the answer has its spec with defaults, notices and the launch check."""
    try:
        return client.validate(file.specs[index])
    except InvalidError as error:
        raise InvalidError(error.message, file.locate(error.violations)) from error


def checked_plain(answer: ValidateResponse) -> dict[str, Any]:
    """A checked run for --json."""
    return {
        "spec": to_plain(answer.spec),
        "notices": list(answer.notices),
        "preflight": to_plain(answer.preflight) if answer.HasField("preflight") else None,
    }


def note_checks(notices: Sequence[str], preflight: Preflight) -> None:
    """Print notices and the launch check: the command, or why nothing is known."""
    for notice in notices:
        note(f"notice: {escaped(notice)}")
    for line in preflight_lines(preflight):
        note(line)


def report(file: RunFile, answers: Sequence[SubmitResponse], as_json: bool) -> None:
    group = answers[0].run.labels.get("group", "") if file.several else ""
    if as_json:
        runs = [{"run": to_plain(a.run), "created": a.created, "notices": list(a.notices)} for a in answers]
        echo_json({"runs": runs, "group": group or None})
        return
    for answer, variation in zip(answers, file.variations, strict=True):
        echo(submitted_line(answer.run, answer.created, variation))
    note_notices(answers)
    if group:
        note(f"{len(answers)} runs; list them with: runspine ls --label group={group}")


def note_notices(answers: Sequence[SubmitResponse]) -> None:
    """Print each notice once, and why launches were not checked."""
    notices = list(dict.fromkeys(notice for answer in answers for notice in answer.notices))
    for notice in notices:
        note(f"notice: {escaped(notice)}")
    unknown = [answer.run.preflight for answer in answers if answer.run.preflight.state == PREFLIGHT_UNKNOWN]
    for line in dict.fromkeys(line for each in unknown for line in preflight_lines(each)):
        note(line)


def submitted_line(run: Run, created: bool, variation: dict[str, str]) -> str:
    varied = "".join(f"  {k}={v}" for k, v in variation.items())
    repeated = "" if created else "  (already submitted under this key)"
    return f"{run.id}  {escaped(run.name)}{escaped(varied)}{repeated}"
