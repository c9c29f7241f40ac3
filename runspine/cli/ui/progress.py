"""Progress of many small things, on stderr, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runspine.cli.ui.screen import console, is_live

# How many are counted before the bar moves: drawing costs more than what is counted.
STRIDE = 256


@contextmanager
def progress_bar(title: str, total: int, as_json: bool) -> Iterator[Callable[[int], object]]:
    """A function that takes how many more are done; it draws nothing where there is no terminal."""
    if not is_live(as_json):
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    bar = Progress(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=total)
    waiting = 0

    def advance(count: int) -> None:
        nonlocal waiting
        waiting += count
        if waiting >= STRIDE:
            bar.advance(task, waiting)
            waiting = 0

    with bar:
        yield advance
