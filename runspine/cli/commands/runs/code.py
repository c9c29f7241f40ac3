"""`runspine code`: the files that a run was submitted with."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.project_code import code_of_run
from runspine.cli.lookup.run import run_argument
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.errors import RefusedError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import escaped
from runspine.wire.v1.spec_pb2 import Code


@click.command()
@run_argument
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write the files to a new DIR.")
@click.option("--diff", is_flag=True, help="Print the difference to the commit.")
@click.option("--file", "path", default="", metavar="PATH", help="Print one file.")
@json_option
def code(run: str, out: Path | None, diff: bool, path: str, as_json: bool) -> None:
    """List, print or write the files that a run was submitted with.

    \b
    runspine code 01KAQ3                    # the files, with sizes and digests
    runspine code 01KAQ3 --diff             # what differed from the commit
    runspine code 01KAQ3 --out ./as-it-ran
    """
    if sum((out is not None, diff, bool(path))) > 1:
        raise click.UsageError("--out, --diff and --file exclude each other.")
    with Client() as client:
        stored = code_of_run(client, run)
        if diff:
            _print_diff(client, stored)
        elif path:
            _print_file(client, stored, path)
        else:
            _list_or_write(client, stored, out, as_json)


def _print_diff(client: Client, stored: Code) -> None:
    from runspine.code.download import read_object

    if not stored.origin.diff:
        note(
            "its tracked files did not differ from the commit" if stored.origin.commit else "it has no commit"
        )
        return
    sys.stdout.buffer.write(read_object(client, stored.origin.diff))
    if stored.origin.diff_cut:
        note("the difference was too large: this is its beginning; --out writes the files themselves")


def _print_file(client: Client, stored: Code, path: str) -> None:
    from runspine.code.download import read_object, read_tree

    files = read_tree(client, stored.tree).files
    found = next((entry for entry in files if entry.path == path), None)
    if found is None:
        raise RefusedError(f"{path} is not among the {len(files):,} files: without --file they are listed")
    sys.stdout.buffer.write(read_object(client, found.digest))


def _list_or_write(client: Client, stored: Code, out: Path | None, as_json: bool) -> None:
    from runspine.code.download import read_tree, write_tree

    tree = read_tree(client, stored.tree)
    if out is not None:
        write_tree(client, tree, out)
        note(f"{len(tree.files):,} files written to {out}; the program started in ./{stored.directory}")
    if as_json:
        echo_json({"code": to_plain(stored), "files": [asdict(entry) for entry in tree.entries]})
    elif out is None:
        for entry in tree.entries:
            shown = f"-> {escaped(entry.target)}" if entry.target else entry.digest[:12]
            echo(f"{entry.size:>12,}  {shown:<12}  {escaped(entry.path)}")
