"""Output of a benchmark: a progress bar and a table on a terminal, Markdown elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runspine.bench.kit.figures import Report, machine, shown

# Called with a line about the stage that begins.
Announce = Callable[[str], None]
MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("", "")}


@contextmanager
def stages(total: int, *, quiet: bool = False) -> Iterator[Announce]:
    """Yield a function to call at the beginning of each stage, with a line about it."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: print(text, file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, completed=-1)

        def announce(text: str) -> None:
            progress.update(task, advance=1, description=text)

        yield announce


def show(report: Report) -> None:
    """Print a report to standard output."""
    if not sys.stdout.isatty():
        print(report.as_markdown())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(report.title, max_width=36)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("target", no_wrap=True)
    table.add_column("compared with", style="dim")
    for figure in report.figures:
        mark, style = MARKS[figure.met]
        value = f"{shown(figure.value)} {figure.unit}"
        table.add_row(figure.what, value, Text(mark, style=style), figure.target, figure.context)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(table)
    console.print(Text(machine(), style="dim"))
