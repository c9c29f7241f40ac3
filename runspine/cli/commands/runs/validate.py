"""`runspine validate`: check a run file and show it with all defaults."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from runspine.cli.commands.runs.submit import check, read_file, set_option
from runspine.cli.errors import json_option
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.spec.run_file import spec_yaml
from runspine.text.values import escaped, escaped_block
from runspine.wire.v1.spec_pb2 import RunSpec


@click.command()
@click.argument("file", required=False)
@set_option
@click.option("--offline", is_flag=True, help="Check only the file, without a stack.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of run files.")
@json_option
def validate(file: str | None, sets: tuple[str, ...], offline: bool, schema: bool, as_json: bool) -> None:
    """Check a run file and show its spec with all defaults, and notices."""
    if schema:
        echo(files("runspine").joinpath("runfile.schema.json").read_text(encoding="utf-8").rstrip("\n"))
        return
    if file is None:
        raise click.UsageError("Give a run file, or `-` for standard input.")
    read = read_file(file, list(sets))
    if offline:
        checked: list[tuple[RunSpec, list[str]]] = [(spec, []) for spec in read.specs]
    else:
        with Client() as client:
            checked = [check(client, read, index) for index in range(len(read.specs))]
    if as_json:
        echo_json({"runs": [{"spec": to_plain(spec), "notices": notices} for spec, notices in checked]})
        return
    notices = dict.fromkeys(notice for _, found in checked for notice in found)
    echo(escaped_block(spec_yaml(checked[0][0]).rstrip("\n")))
    for notice in notices:
        note(f"notice: {escaped(notice)}")
    more = f" ({len(checked)} runs; the first is shown)" if read.several else ""
    note(f"{Path(file).name if file != '-' else 'standard input'} is valid{more}")
