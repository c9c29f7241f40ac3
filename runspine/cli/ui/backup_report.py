"""Progress bars and problem reports of `backup` and `restore`."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runspine.backup.creation import ReportProgress
from runspine.backup.exported_log import as_backup
from runspine.backup.index import NAME, BackupIndex
from runspine.backup.target import BackupTarget, Folder, Tar
from runspine.cli.ui.screen import console, echo, is_live, note
from runspine.errors import InvalidError, UnreachableError
from runspine.eventlog.connection import NatsUnreachableError as LinkLost
from runspine.storage.blobs import BlobsUnavailableError
from runspine.text.values import escaped

MAX_SHOWN = 20


@contextlib.contextmanager
def progress_bars(as_json: bool) -> Iterator[ReportProgress]:
    """Yield a progress callback: one bar for each kind of object on a terminal, a no-op elsewhere."""
    if not is_live(as_json):
        yield lambda what, done, total: None
        return
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    bars: dict[str, TaskID] = {}
    columns = (
        TextColumn("{task.description:<20}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as drawn:

        def update(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = drawn.add_task(what, total=total)
            drawn.update(bars[what], completed=done, total=total)

        yield update


@contextlib.contextmanager
def open_backup(path: Path) -> Iterator[BackupTarget]:
    """Open a backup: a folder, a tar file or an exported log. Raises InvalidError."""
    if path.is_dir():
        yield Folder(path)
    elif not path.exists():
        raise InvalidError(f"{path} does not exist")
    elif _is_gzip(path):
        with as_backup(path) as folder:
            yield folder
    else:
        parent = path.absolute().parent
        with (
            tempfile.TemporaryDirectory(prefix=".runspine-", dir=parent) as scratch,
            contextlib.closing(Tar(path, Path(scratch))) as tar,
        ):
            yield tar


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


@contextlib.contextmanager
def translate_unreachable() -> Iterator[None]:
    try:
        yield
    except (BlobsUnavailableError, LinkLost) as error:
        raise UnreachableError(str(error)) from error


def echo_problems(problems: list[str], index: BackupIndex) -> None:
    for problem in problems[:MAX_SHOWN]:
        echo(f"problem: {escaped(problem)}", "red")
    if len(problems) > MAX_SHOWN:
        echo(f"and {len(problems) - MAX_SHOWN:,} more", "red")
    for digest in index.missing[:MAX_SHOWN]:
        echo(f"missing: artifact {digest} is on the log but not in S3", "yellow")
    if len(index.missing) > MAX_SHOWN:
        note(f"and {len(index.missing) - MAX_SHOWN:,} more; {NAME} lists them")
