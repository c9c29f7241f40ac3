"""`runspine report`: text and queries as one static HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from runspine.cli.errors import json_option
from runspine.cli.ui.screen import echo_json, note
from runspine.errors import InvalidError, Violation

MAX_BYTES = 4 << 20


@click.command()
@click.argument("source", metavar="FILE.md", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--out", type=click.Path(path_type=Path), help="The HTML file.  [default: FILE.html]")
@json_option
def report(source: Path, out: Path | None, as_json: bool) -> None:
    """Make a report: one HTML file with charts and tables, which needs no network and no server.

    FILE.md is Markdown; its blocks ```chart, ```runs and ```sql are answered from the stack.

    \b
    runspine report study.md --out study.html
    """
    from runspine.api import Api
    from runspine.reports.building import build

    if source.stat().st_size > MAX_BYTES:
        raise InvalidError("the report is not accepted", [Violation("FILE.md", "more than 4 MiB of text")])
    with Api() as api:
        page = build(api, source.read_text(encoding="utf-8"))
    target = out or source.with_suffix(".html")
    part = target.with_name(f".{target.name}.part")
    part.write_text(page, encoding="utf-8")
    part.replace(target)
    if as_json:
        echo_json({"file": str(target), "bytes": target.stat().st_size})
    else:
        note(f"{target}: {target.stat().st_size / 1e3:,.0f} kB")
