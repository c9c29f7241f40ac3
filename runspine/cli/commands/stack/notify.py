"""`runspine notify`: notices, their channels, and the dead-letter list."""

from __future__ import annotations

import time

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.screen import Cell, echo, echo_json, note, table
from runspine.errors import RefusedError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import enum_word, iso_time
from runspine.text.values import escaped, local_time
from runspine.wire.v1 import trainer_pb2 as wire

HEADINGS = ("ID", "WHEN", "STATE", "TRIES", "TO", "RULE", "NOTICE", "REASON")
STYLES = {"pending": "yellow", "sent": "green", "dead": "red"}
POLL_SECONDS = 0.3

limit_option = click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many."
)


@click.group()
def notify() -> None:
    """List notices, test their channels, and send dead ones again.

    Channels and rules are in the file that RUNSPINE_NOTICES_FILE names; see docs/howto/notices.md.
    """


@notify.command("list")
@click.option("--run", "run", metavar="RUN", default="", help="Only of this run.")
@limit_option
@json_option
def list_(run: str, limit: int, as_json: bool) -> int:
    """List notices, newest first: pending, sent, dead."""
    with Client() as client:
        run_id = client.get(run).run.id if run else ""
        return _show(client, wire.ListNoticesRequest(run_id=run_id, limit=limit), as_json)


@notify.command()
@limit_option
@json_option
def dead(limit: int, as_json: bool) -> int:
    """List notices that no receiver accepted, newest first."""
    with Client() as client:
        return _show(client, wire.ListNoticesRequest(dead=True, limit=limit), as_json)


@notify.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every notice of the dead-letter list.")
@json_option
def retry(ids: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Send dead notices again, under the same id."""
    if bool(ids) == everything:
        raise click.UsageError("give the IDs of notices, or --all")
    with Client() as client:
        if everything:
            listed = client.list_notices(wire.ListNoticesRequest(dead=True, limit=1000)).notices
            ids = tuple(notice.due.id for notice in listed)
        found = [client.retry_notice(notice_id) for notice_id in ids]
    if as_json:
        echo_json([_plain(notice) for notice in found])
    else:
        echo(f"{len(found)} to be sent again.")
    return OK


@notify.command()
@click.argument("channel")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, help="Seconds."
)
@json_option
def test(channel: str, timeout: float, as_json: bool) -> int:
    """Send a test notice to CHANNEL and wait for the receiver's answer.

    Exit code 1 when it did not accept the notice.
    """
    with Client() as client:
        request = wire.ListNoticesRequest(run_id=client.test_channel(channel))
        deadline = time.monotonic() + timeout
        while True:
            found = client.list_notices(request).notices
            if found and found[0].state in (wire.SENT, wire.DEAD):
                break
            if time.monotonic() > deadline:
                raise RefusedError(
                    f"no answer within {timeout:g} s: `runspine status` shows whether the service runs"
                )
            time.sleep(POLL_SECONDS)
    accepted = found[0].state == wire.SENT
    if as_json:
        echo_json(_plain(found[0]))
    elif accepted:
        echo(f"{channel} has accepted the notice {found[0].due.id[:12]}.", "green")
    else:
        echo(f"{channel} did not accept it: {escaped(found[0].reason)}", "red")
    return OK if accepted else FAILED


def _show(client: Client, request: wire.ListNoticesRequest, as_json: bool) -> int:
    answer = client.list_notices(request)
    if as_json:
        found = [_plain(notice) for notice in answer.notices]
        echo_json({"notices": found, "channels": list(answer.channels)})
    elif not answer.channels and not answer.notices:
        note("no channels are set up: see docs/howto/notices.md")
    else:
        table(HEADINGS, [_row(notice) for notice in answer.notices])
    return OK


def _row(notice: wire.Notice) -> list[Cell | str]:
    due, state = notice.due, _state(notice)
    return [
        due.id[:12],
        local_time(notice.at),
        Cell(state, STYLES.get(state, "")),
        str(notice.tries),
        due.target,
        due.rule,
        due.title,
        notice.reason,
    ]


def _plain(notice: wire.Notice) -> dict[str, object]:
    due = notice.due
    return {
        "id": due.id,
        "number": due.number,
        "run": due.run_id,
        "run_name": due.run_name,
        "rule": due.rule,
        "event": due.event,
        "target": due.target,
        "caused_at": iso_time(due.caused_at),
        "title": due.title,
        "text": due.text,
        "state": _state(notice),
        "tries": notice.tries,
        "reason": notice.reason,
        "at": iso_time(notice.at),
    }


def _state(notice: wire.Notice) -> str:
    return enum_word(wire.NoticeState.DESCRIPTOR, notice.state)
