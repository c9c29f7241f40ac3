"""`runspine restore`: a backup into an empty system."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from runspine.backup.index import Index
from runspine.backup.proving import fact_flaws
from runspine.backup.restoring import check
from runspine.backup.restoring import restore as put_back
from runspine.backup.saving import Tell
from runspine.backup.shelf import Shelf
from runspine.backup.site import embedded_site, named_site, opened
from runspine.cli.backup_report import opened_shelf, phases, tell_flaws, unreachable_told
from runspine.cli.edge import FAILED, OK, json_option
from runspine.cli.screen import note, say, say_json
from runspine.embedded.home import Home, default_home
from runspine.embedded.record import running_record
from runspine.embedded.stack import running_stack
from runspine.errors import Invalid, Refused
from runspine.settings import ServiceSettings


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--replicas",
    type=click.IntRange(1, 5),
    default=1,
    show_default=True,
    envvar="RUNSPINE_STREAM_REPLICAS",
    help="Copies of each stream in a NATS cluster.",
)
@json_option
@click.pass_context
def restore(ctx: click.Context, source: Path, replicas: int, as_json: bool) -> None:
    """Put the backup SOURCE (a folder, a .tar, or a file of `events export`) into an empty system.

    Into RUNSPINE_HOME when no RUNSPINE_NATS_URL names another; its services must not run. Broken off, it
    goes on when called again. Everything is checked: the backup before, the log after.
    """
    with phases(as_json) as tell, opened_shelf(source) as shelf:
        index = shelf.index()
        flaws = fact_flaws(shelf, index, tell)
        if flaws:
            more = f" (and {len(flaws) - 1} more flaws)" if len(flaws) > 1 else ""
            raise Invalid(f"{source} is damaged, and nothing was restored: {flaws[0]}{more}")
        # An S3 server that is starting refuses connections for a while, which is nobody's news.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        flaws = asyncio.run(_restore(shelf, index, replicas, tell))
    if as_json:
        say_json(
            {
                "source": str(source),
                "facts": dict(index.facts),
                "objects": len(index.objects),
                "bytes": index.bytes,
                "flaws": flaws,
                "missing": list(index.missing),
            }
        )
    else:
        say(f"restored: {index.commits:,} commits, {len(index.objects):,} objects from {source}")
        tell_flaws(flaws, index)
        if not flaws:
            note("start the services, then prove it with: runspine events verify")
    ctx.exit(FAILED if flaws else OK)


async def _restore(shelf: Shelf, index: Index, replicas: int, tell: Tell) -> list[str]:
    with unreachable_told():
        if (named := named_site()) is not None:
            return await _into(named, shelf, index, replicas, tell)
        home = Home.at(default_home())
        if running_record(home) is not None:
            raise Refused(f"a stack runs in {home.path}: stop it first with `runspine down`")
        async with running_stack(home.path, only={"nats", "s3"}) as stack:
            settings = embedded_site(home, stack.credentials, stack.addresses)
            return await _into(settings, shelf, index, replicas, tell)


async def _into(
    settings: ServiceSettings, shelf: Shelf, index: Index, replicas: int, tell: Tell
) -> list[str]:
    async with opened(settings) as site:
        await put_back(site, shelf, index, tell, replicas=replicas)
        return await check(site, shelf, index, tell)
