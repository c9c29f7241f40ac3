"""`runspine events quarantined` and `release`: subjects with messages that no reader accepts."""

from __future__ import annotations

import asyncio
import getpass

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.screen import Cell, echo_json, note, table
from runspine.errors import InvalidError, RefusedError
from runspine.eventlog import CorruptError
from runspine.eventlog.subjects import FACT_STREAMS, is_token, stream_of
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import age
from runspine.wire.v1.run_pb2 import Quarantine

HEADINGS = ("SUBJECT", "FIRST", "LAST", "MESSAGES", "SINCE", "REASON")


@click.command()
@json_option
@click.pass_context
def quarantined(ctx: click.Context, as_json: bool) -> None:
    """List quarantined subjects, with reasons. Exit code 1 when there are any.

    A message that does not decode, does not chain to the commit before it, or does not belong on its subject
    quarantines the subject: what is before it counts, nothing after it does. Everything else goes on.
    """
    with Client() as client:
        found = client.quarantines()
    if as_json:
        echo_json({"quarantines": [to_plain(each) for each in found]})
    elif not found:
        note("no subject is quarantined")
    else:
        table(HEADINGS, [_row(each) for each in found], right=("FIRST", "LAST", "MESSAGES"))
        note("look at one with `runspine events tail`; end it with `runspine events release SUBJECT`")
    ctx.exit(FAILED if found else OK)


def _row(quarantine: Quarantine) -> list[Cell | str]:
    return [
        Cell(quarantine.subject, "red"),
        str(quarantine.first),
        str(quarantine.last),
        str(quarantine.messages),
        age(quarantine.at),
        quarantine.reason,
    ]


@click.command()
@click.argument("subject")
@click.option("--reason", default="", help="Why it is safe to continue, for the log.")
@json_option
def release(subject: str, reason: str, as_json: bool) -> int:
    """End the quarantine of SUBJECT, such as runs.ID: its history continues after the last accepted commit.

    The messages that were not accepted stay on the stream and never count. If one of them was a commit that
    was damaged on disk, its facts are lost: restore a backup instead. Needs the NATS user admin.
    """
    from runspine.cli.ui.backup_report import translate_unreachable

    _check(subject)
    with translate_unreachable():
        ended = asyncio.run(_release(subject, reason))
    if as_json:
        echo_json({"quarantine": to_plain(ended)})
    else:
        note(f"{subject} is released at {ended.released}; {ended.messages} messages do not count")
    return OK


def _check(subject: str) -> None:
    prefix, _, key = subject.partition(".")
    try:
        known = stream_of(f"{prefix}.") in FACT_STREAMS and is_token(key)
    except KeyError:
        known = False
    if not known:
        raise InvalidError(f"{subject[:80]!r} is not a subject of facts, such as runs.ID or workers.ID")


async def _release(subject: str, reason: str) -> Quarantine:
    # NATS is loaded by this command alone.
    from runspine.backup.site import open_site, running_site
    from runspine.eventlog.release import release as release_subject

    async with open_site(running_site()) as site:
        try:
            return await release_subject(site.log, subject, by=getpass.getuser(), reason=reason)
        except CorruptError as error:
            raise RefusedError(f"another message arrived on {subject}: repeat the command") from error
