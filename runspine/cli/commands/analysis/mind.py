"""`runspine mind`: goals, intentions and beliefs that the agents of a run have reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.run import run_argument, run_id_of
from runspine.cli.ui.screen import drawable, echo, echo_json, note
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import iso_time
from runspine.text.values import clock, escaped
from runspine.wire.v1.telemetry_pb2 import LogSource

BAR_WIDTH = 20
TITLES = ("goals", "intentions", "beliefs")
NO_MIND = "no agent of this run has reported its mind"


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Follow new snapshots until the run's logs end.")
@click.option("--at", "at_step", type=click.IntRange(0), help="Show the newest snapshot up to this step.")
@click.option("--all", "everything", is_flag=True, help="Show every snapshot, one line each.")
@json_option
def mind(run: str, follow: bool, at_step: int | None, everything: bool, as_json: bool) -> int:
    """Show the mind of a run's agent: by default the newest snapshot."""
    with Client() as client:
        snapshots = _snapshots(client, run_id_of(client, run), follow)
        try:
            if follow or everything:
                return _each(snapshots, as_json)
            found: MindEntry | None = None
            for snapshot in snapshots:
                if at_step is None or snapshot.step <= at_step:
                    found = snapshot
        except KeyboardInterrupt:
            return OK
    if found is None:
        note(NO_MIND + (" by then" if at_step is not None else ""))
        return FAILED
    if as_json:
        echo_json(found.plain())
    else:
        _show(found)
    return OK


class MindEntry(NamedTuple):
    """A snapshot of an agent's mind from the logs of a run."""

    attempt: int
    at: int
    content: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.content.get("step", 0))

    def plain(self) -> dict[str, Any]:
        return {"attempt": self.attempt, "at": iso_time(self.at), **self.content}


def _snapshots(client: Client, run_id: str, follow: bool) -> Iterator[MindEntry]:
    for message in client.logs(run_id, follow=follow):
        for line in message.lines:
            if line.source == LogSource.MIND:
                yield MindEntry(message.attempt, line.at, json.loads(line.text))


def _each(snapshots: Iterator[MindEntry], as_json: bool) -> int:
    any_seen = False
    for snapshot in snapshots:
        any_seen = True
        if as_json:
            echo_json(snapshot.plain())
        else:
            doing = escaped(", ".join(snapshot.content["intentions"]) or "nothing")
            echo(f"{clock(snapshot.at)}  step {snapshot.step:>9,}  {_confidence(snapshot)}  {doing}")
    if not any_seen:
        note(NO_MIND)
    return OK if any_seen else FAILED


def _confidence(snapshot: MindEntry) -> str:
    if snapshot.content.get("confidence") is None:
        return ""
    share = min(max(float(snapshot.content["confidence"]), 0.0), 1.0)
    filled = round(share * BAR_WIDTH)
    return drawable("█") * filled + drawable("░") * (BAR_WIDTH - filled) + f" {share:4.0%}"


def _show(snapshot: MindEntry) -> None:
    who = f" of {escaped(snapshot.content['agent_id'])}" if snapshot.content.get("agent_id") else ""
    echo(f"The mind{who} at step {snapshot.step:,}, attempt {snapshot.attempt}, {clock(snapshot.at)}", "bold")
    if confidence := _confidence(snapshot):
        echo(f"  confidence  {confidence}")
    for title in TITLES:
        words = snapshot.content[title] or ["-"]
        echo(f"  {title:<11} {escaped(words[0])}")
        for word in words[1:]:
            echo(f"  {'':<11} {escaped(word)}")
