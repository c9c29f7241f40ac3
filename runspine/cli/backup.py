"""`runspine backup`: the whole system into a folder or a file, while it goes on working."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import click

from runspine.backup.index import Index
from runspine.backup.proving import fact_flaws, object_flaws
from runspine.backup.saving import Tell, save
from runspine.backup.shelf import Folder, pack
from runspine.backup.site import opened, running_site
from runspine.cli.backup_report import opened_shelf, phases, tell_flaws, unreachable_told
from runspine.cli.edge import FAILED, OK, json_option
from runspine.cli.screen import note, say, say_json
from runspine.errors import Invalid
from runspine.settings import ServiceSettings


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Only prove the backup at TARGET; needs no stack.")
@click.option("--tidy", is_flag=True, help="Remove objects from the folder that the system no longer has.")
@json_option
@click.pass_context
def backup(ctx: click.Context, target: Path, verify: bool, tidy: bool, as_json: bool) -> None:
    """Write the whole system to TARGET: a folder, or one file when it ends in .tar.

    Facts with their hash chains, telemetry, checkpoints and all other artifacts. A folder is brought up
    to date: only what is new is copied, and a backup that was broken off goes on. The stack may be working.
    """
    with phases(as_json) as tell:
        index, flaws = _verified(target, tell) if verify else _made(target, tidy, tell)
    if as_json:
        say_json({**_summary(target, index), "flaws": flaws})
    else:
        _say_summary(target, index, "proven" if verify else "backed up")
        tell_flaws(flaws, index)
    ctx.exit(FAILED if flaws or index.missing else OK)


def _verified(target: Path, tell: Tell) -> tuple[Index, list[str]]:
    with opened_shelf(target) as shelf:
        index = shelf.index()
        return index, fact_flaws(shelf, index, tell) + object_flaws(shelf, index, tell)


def _made(target: Path, tidy: bool, tell: Tell) -> tuple[Index, list[str]]:
    folder = Folder(_folder_for(target))
    settings = running_site()
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    index = asyncio.run(_save(settings, folder, tell))
    flaws = fact_flaws(folder, index, tell)
    if target.suffix == ".tar":
        pack(folder, index, target)
        shutil.rmtree(folder.path)
    elif tidy:
        note(f"{folder.tidy(index)} objects that the system no longer has were removed from {target}")
    return index, flaws


def _folder_for(target: Path) -> Path:
    if not target.absolute().parent.is_dir():
        raise Invalid(f"{target.absolute().parent} is not a folder")
    if target.suffix == ".tar":
        if target.exists():
            raise Invalid(f"{target} exists already; a folder can be brought up to date, a file cannot")
        return target.with_name(f"{target.name}.partial")
    if target.exists() and not target.is_dir():
        raise Invalid(f"{target} is a file; name a folder, or a new file that ends in .tar")
    if target.is_dir() and any(target.iterdir()) and not (target / "streams").is_dir():
        raise Invalid(f"{target} holds other things; name an empty folder, or one with a backup in it")
    return target


async def _save(settings: ServiceSettings, folder: Folder, tell: Tell) -> Index:
    with unreachable_told():
        async with opened(settings) as site:
            return await save(site, folder, tell)


def _summary(target: Path, index: Index) -> dict[str, object]:
    return {
        "target": str(target),
        "made_at": index.made_at,
        "facts": dict(index.facts),
        "telemetry_tail": max(0, index.tail_last - index.tail_first + 1),
        "objects": len(index.objects),
        "bytes": index.bytes,
        "missing": list(index.missing),
    }


def _say_summary(target: Path, index: Index, what: str) -> None:
    tail = max(0, index.tail_last - index.tail_first + 1)
    say(
        f"{what}: {index.commits:,} commits, {len(index.objects):,} objects, "
        f"{tail:,} telemetry batches not archived yet; {index.bytes:,} bytes in {target}"
    )
