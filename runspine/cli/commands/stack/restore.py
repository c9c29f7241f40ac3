"""`runspine restore`: restore a backup into an empty system."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from runspine.backup.creation import ReportProgress
from runspine.backup.index import BackupIndex
from runspine.backup.restoration import compare
from runspine.backup.restoration import restore as put_back
from runspine.backup.site import embedded_site, named_site, open_site
from runspine.backup.streams import records_of
from runspine.backup.target import BackupTarget
from runspine.backup.verification import fact_problems
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.backup_report import echo_problems, open_backup, progress_bars, translate_unreachable
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.embedded.credentials import trust_roots
from runspine.embedded.home import Home, default_home
from runspine.embedded.record import running_record
from runspine.embedded.stack import running_stack
from runspine.errors import InvalidError, RefusedError
from runspine.eventlog import Recorded
from runspine.eventlog.signing import roots_in
from runspine.eventlog.subjects import RUNS, SIGNERS
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
    """Restore SOURCE (a folder, a .tar, or a file of `events export`) into an empty system.

    The target is RUNSPINE_HOME unless RUNSPINE_NATS_URL is set; its services must not run. An interrupted
    restore continues when called again. The backup is verified before and the log after.
    """
    with progress_bars(as_json) as on_progress, open_backup(source) as backup:
        index = backup.index()
        problems = fact_problems(backup, index, on_progress)
        if problems:
            more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
            raise InvalidError(f"{source} is damaged; nothing was restored: {problems[0]}{more}")
        # Connection errors are expected while the S3 server starts.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        problems = asyncio.run(_restore(backup, index, replicas, on_progress))
    if as_json:
        echo_json(
            {
                "source": str(source),
                "facts": dict(index.facts),
                "objects": len(index.objects),
                "bytes": index.bytes,
                "flaws": problems,
                "missing": list(index.missing),
            }
        )
    else:
        echo(f"restored: {index.commits:,} commits, {len(index.objects):,} objects from {source}")
        echo_problems(problems, index)
        if not problems:
            note("start the services, then run: runspine events verify")
    ctx.exit(FAILED if problems else OK)


async def _restore(
    backup: BackupTarget, index: BackupIndex, replicas: int, on_progress: ReportProgress
) -> list[str]:
    with translate_unreachable():
        if (named := named_site()) is not None:
            return await _into(named, backup, index, replicas, on_progress)
        home = Home.at(default_home())
        if running_record(home) is not None:
            raise RefusedError(f"a stack runs in {home.path}: stop it first with `runspine down`")
        async with running_stack(home.path, only={"nats", "s3"}) as stack:
            settings = embedded_site(home, stack.credentials, stack.addresses)
            problems = await _into(settings, backup, index, replicas, on_progress)
        # A person who restores a backup trusts the operators that introduced its keys.
        trust_roots(home, _roots(backup, index))
        return problems


def _roots(backup: BackupTarget, index: BackupIndex) -> set[bytes]:
    records = (record for record in records_of(backup, index, RUNS) if record.subject.startswith(SIGNERS))
    return roots_in(
        Recorded(record.stream, record.sequence, record.subject, record.commit, record.digest, 0)
        for record in records
    )


async def _into(
    settings: ServiceSettings,
    backup: BackupTarget,
    index: BackupIndex,
    replicas: int,
    on_progress: ReportProgress,
) -> list[str]:
    async with open_site(settings) as site:
        await put_back(site, backup, index, on_progress, replicas=replicas)
        return await compare(site, backup, index, on_progress)
