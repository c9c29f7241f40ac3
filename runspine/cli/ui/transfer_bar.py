"""Progress of bytes and of waiting, on stderr, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runspine.cli.ui.screen import console, is_live


@contextmanager
def transfer_bar(title: str, as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """A function that takes the bytes done and in all (0: unknown); it draws nothing elsewhere."""
    if not is_live(as_json):
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


@contextmanager
def waiting_line(title: str, as_json: bool) -> Iterator[None]:
    """A line with the time that something takes whose progress is not known."""
    if not is_live(as_json):
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        progress.add_task(title, total=None)
        yield
