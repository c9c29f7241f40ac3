"""What `backup` and `restore` show while they work, and what they say of damage."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runspine.backup.exported import as_backup
from runspine.backup.index import NAME, Index
from runspine.backup.saving import Tell
from runspine.backup.shelf import Folder, Shelf, Tar
from runspine.blobs import BlobsUnavailable
from runspine.cli.screen import console, is_live, note, say
from runspine.cli.text import escaped
from runspine.errors import Invalid, Unreachable
from runspine.log.link import Unreachable as LinkLost

SHOWN = 20


@contextlib.contextmanager
def phases(as_json: bool) -> Iterator[Tell]:
    """One bar for each thing that is copied; nothing where nobody looks."""
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

        def tell(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = drawn.add_task(what, total=total)
            drawn.update(bars[what], completed=done, total=total)

        yield tell


@contextlib.contextmanager
def opened_shelf(path: Path) -> Iterator[Shelf]:
    """A backup of any form. Raises Invalid."""
    if path.is_dir():
        yield Folder(path)
    elif not path.exists():
        raise Invalid(f"{path} does not exist")
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
def unreachable_told() -> Iterator[None]:
    try:
        yield
    except (BlobsUnavailable, LinkLost) as error:
        raise Unreachable(str(error)) from error


def tell_flaws(flaws: list[str], index: Index) -> None:
    for flaw in flaws[:SHOWN]:
        say(f"flaw: {escaped(flaw)}", "red")
    if len(flaws) > SHOWN:
        say(f"and {len(flaws) - SHOWN:,} more", "red")
    for digest in index.missing[:SHOWN]:
        say(f"missing: artifact {digest}: the log keeps it and S3 does not have it", "yellow")
    if len(index.missing) > SHOWN:
        note(f"and {len(index.missing) - SHOWN:,} more; {NAME} lists them")
