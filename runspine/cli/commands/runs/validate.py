"""`runspine validate`: check a run file and show it with all defaults."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from runspine.cli.commands.runs.submit import check, checked_plain, note_checks, read_file, set_option
from runspine.cli.errors import json_option
from runspine.cli.lookup.project_code import CodeOptions, attach_code
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.rpc.trainer_client import Client
from runspine.spec.run_file import spec_yaml
from runspine.text.values import escaped_block
from runspine.wire.v1.preflight_pb2 import PREFLIGHT_UNKNOWN
from runspine.wire.v1.trainer_pb2 import ValidateResponse


@click.command()
@click.argument("file", required=False)
@set_option
@click.option("--offline", is_flag=True, help="Check only the file, without a stack.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of run files.")
@json_option
def validate(file: str | None, sets: tuple[str, ...], offline: bool, schema: bool, as_json: bool) -> None:
    """Check a run file; show its spec with all defaults, notices and the command.

    A worker is asked for the launch without starting it. What no worker can answer now is unknown.
    """
    if schema:
        echo(files("runspine").joinpath("runfile.schema.json").read_text(encoding="utf-8").rstrip("\n"))
        return
    if file is None:
        raise click.UsageError("Give a run file, or `-` for standard input.")
    read = read_file(file, list(sets))
    if offline:
        checked = [ValidateResponse(spec=spec) for spec in read.specs]
    else:
        with Client() as client:
            attach_code(client, read, CodeOptions(), as_json)
            checked = [check(client, read, index) for index in range(len(read.specs))]
    if as_json:
        echo_json({"runs": [checked_plain(answer) for answer in checked]})
        return
    echo(escaped_block(spec_yaml(checked[0].spec).rstrip("\n")))
    notices = dict.fromkeys(each for answer in checked for each in answer.notices)
    note_checks(list(notices), checked[0].preflight)
    more = f" ({len(checked)} runs; the first is shown)" if read.several else ""
    unknown = any(answer.preflight.state == PREFLIGHT_UNKNOWN for answer in checked)
    more += "; whether it would start is not known" if unknown else ""
    note(f"{Path(file).name if file != '-' else 'standard input'} is valid{more}")
