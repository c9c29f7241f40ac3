"""`runspine audit`: who called what, from where, and whether it was refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.screen import Cell, echo, echo_json, table
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.subjects import AUDIT
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import enum_word, iso_time, to_plain
from runspine.text.values import escaped, local_time
from runspine.wire.v1.facts_pb2 import REFUSED, CallOutcome
from runspine.wire.v1.trainer_pb2 import AuditEntry, SearchAuditRequest

PAGE_SIZE = 500
HEADINGS = ("WHEN", "WHO", "CALL", "TARGET", "FROM", "OUTCOME", "COUNT", "REASON")


@click.command()
@click.option("--by", "caller", metavar="NAME", default="", help="Calls with the token of this name.")
@click.option("--method", metavar="METHOD", default="", help="Calls of this method, such as Submit or login.")
@click.option("--refused", is_flag=True, help="Only calls that were refused.")
@click.option(
    "--text", metavar="TEXT", default="", help="A part of the target, address, reason or request id."
)
@click.option("--since", type=click.DateTime(), help="Not before this time (UTC).")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@click.option(
    "--verify", is_flag=True, help="Verify that no record is missing or changed, by the hash chains."
)
@json_option
def audit(
    caller: str,
    method: str,
    refused: bool,
    text: str,
    since: datetime | None,
    limit: int,
    verify: bool,
    as_json: bool,
) -> int:
    """List calls that changed something, refusals and logins, newest first. Needs a token of scope admin.

    Equal refusals of one address within a minute are one record with a count.
    """
    if verify:
        return _verify(as_json)
    start = int(since.replace(tzinfo=UTC).timestamp() * 1e6) if since else 0
    request = SearchAuditRequest(caller=caller, method=method, refused=refused, text=text, since=start)
    with Client() as client:
        entries = list(islice(_pages(client, request, limit), limit))
    if as_json:
        echo_json(
            [{"sequence": one.sequence, "at": iso_time(one.at), **to_plain(one.call)} for one in entries]
        )
    else:
        table(HEADINGS, [_row(entry) for entry in entries])
    return OK


def _pages(client: Client, request: SearchAuditRequest, limit: int) -> Iterator[AuditEntry]:
    request.limit = min(limit, PAGE_SIZE)
    while True:
        answer = client.search_audit(request)
        yield from answer.entries
        if not answer.next_before:
            return
        request.before = answer.next_before


def _row(entry: AuditEntry) -> list[Cell | str]:
    call = entry.call
    where = call.peer + (f" for {call.forwarded}" if call.forwarded else "")
    outcome = enum_word(CallOutcome.DESCRIPTOR, call.outcome).replace("_", " ")
    return [
        local_time(entry.at),
        call.caller or "–",
        f"{call.service} {call.method}".strip(),
        call.target,
        where,
        Cell(outcome, "red") if call.outcome == REFUSED else outcome,
        str(call.count or 1),
        call.reason,
    ]


def _verify(as_json: bool) -> int:
    verifier = ChainVerifier(AUDIT)
    with Client() as client:
        for record in client.read_log(AUDIT):
            verifier.feed(record.sequence, record.subject, record.commit, record.digest)
    problems = verifier.finish(0)
    if as_json:
        echo_json(
            {"whole": not problems, "commits": verifier.commits, "problems": [str(p) for p in problems]}
        )
    else:
        for problem in problems:
            echo(f"problem: {escaped(str(problem))}", "red")
        mark = "NOT WHOLE" if problems else "whole"
        echo(f"{AUDIT} {verifier.commits:,} commits of {len(verifier.heads):,} processes: {mark}")
    return FAILED if problems else OK
