"""`runspine backup`: back up the whole system to a folder or a file, while it runs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import click

from runspine.backup.creation import ReportProgress, save
from runspine.backup.index import BackupIndex
from runspine.backup.site import open_site, running_site
from runspine.backup.target import Folder, pack
from runspine.backup.verification import fact_problems, object_problems
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.backup_report import echo_problems, open_backup, progress_bars, translate_unreachable
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.errors import InvalidError
from runspine.settings import ServiceSettings


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Only verify the backup at TARGET; needs no stack.")
@click.option("--tidy", is_flag=True, help="Remove objects from the folder that the system no longer has.")
@json_option
@click.pass_context
def backup(ctx: click.Context, target: Path, verify: bool, tidy: bool, as_json: bool) -> None:
    """Back up facts, telemetry, checkpoints and other artifacts to TARGET: a folder, or a .tar file.

    A folder is updated incrementally: only new objects are copied, and an interrupted backup continues.
    The stack may be running.
    """
    with progress_bars(as_json) as on_progress:
        index, problems = (
            _verify_backup(target, on_progress) if verify else _make_backup(target, tidy, on_progress)
        )
    if as_json:
        echo_json({**_summary(target, index), "flaws": problems})
    else:
        _echo_summary(target, index, "verified" if verify else "backed up")
        echo_problems(problems, index)
    ctx.exit(FAILED if problems or index.missing else OK)


def _verify_backup(target: Path, on_progress: ReportProgress) -> tuple[BackupIndex, list[str]]:
    with open_backup(target) as backup_files:
        index = backup_files.index()
        return index, fact_problems(backup_files, index, on_progress) + object_problems(
            backup_files, index, on_progress
        )


def _make_backup(target: Path, tidy: bool, on_progress: ReportProgress) -> tuple[BackupIndex, list[str]]:
    folder = Folder(_folder_for(target))
    settings = running_site()
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    index = asyncio.run(_save(settings, folder, on_progress))
    problems = fact_problems(folder, index, on_progress)
    if target.suffix == ".tar":
        pack(folder, index, target)
        shutil.rmtree(folder.path)
    elif tidy:
        note(f"{folder.tidy(index)} stale objects were removed from {target}")
    return index, problems


def _folder_for(target: Path) -> Path:
    if not target.absolute().parent.is_dir():
        raise InvalidError(f"{target.absolute().parent} is not a folder")
    if target.suffix == ".tar":
        if target.exists():
            raise InvalidError(f"{target} already exists; a folder can be updated, a file cannot")
        return target.with_name(f"{target.name}.partial")
    if target.exists() and not target.is_dir():
        raise InvalidError(f"{target} is a file; give a folder, or a new file that ends in .tar")
    if target.is_dir() and any(target.iterdir()) and not (target / "streams").is_dir():
        raise InvalidError(f"{target} is not a backup; give an empty folder, or one with a backup")
    return target


async def _save(settings: ServiceSettings, folder: Folder, on_progress: ReportProgress) -> BackupIndex:
    with translate_unreachable():
        async with open_site(settings) as site:
            return await save(site, folder, on_progress)


def _summary(target: Path, index: BackupIndex) -> dict[str, object]:
    return {
        "target": str(target),
        "made_at": index.made_at,
        "facts": dict(index.facts),
        "telemetry_tail": max(0, index.tail_last - index.tail_first + 1),
        "objects": len(index.objects),
        "bytes": index.bytes,
        "missing": list(index.missing),
    }


def _echo_summary(target: Path, index: BackupIndex, what: str) -> None:
    tail = max(0, index.tail_last - index.tail_first + 1)
    echo(
        f"{what}: {index.commits:,} commits, {len(index.objects):,} objects, "
        f"{tail:,} unarchived telemetry batches; {index.bytes:,} bytes in {target}"
    )
