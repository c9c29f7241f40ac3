"""`runspine mind`: what an agent wants, believes and is about to do, for runs whose agents tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from runspine.cli.ask import run_argument, run_id_of
from runspine.cli.edge import FAILED, OK, json_option
from runspine.cli.screen import drawable, note, say, say_json
from runspine.cli.text import clock, escaped
from runspine.client import Client
from runspine.plain import iso_time
from runspine.wire.v1.telemetry_pb2 import LogSource

BAR = 20
TITLES = ("goals", "intentions", "beliefs")
NOTHING = "this run's agent has told nothing of its mind"


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Every new look, until the run's logs end.")
@click.option("--at", "at_step", type=click.IntRange(0), help="As it was at this step.")
@click.option("--all", "everything", is_flag=True, help="Every look, one line each.")
@json_option
def mind(run: str, follow: bool, at_step: int | None, everything: bool, as_json: bool) -> int:
    """Show the mind of a run's agent: the newest look into it, unless told otherwise."""
    with Client() as client:
        looks = _looks(client, run_id_of(client, run), follow)
        try:
            if follow or everything:
                return _each(looks, as_json)
            found: Look | None = None
            for look in looks:
                if at_step is None or look.step <= at_step:
                    found = look
        except KeyboardInterrupt:
            return OK
    if found is None:
        note(NOTHING + (" by then" if at_step is not None else ""))
        return FAILED
    if as_json:
        say_json(found.plain())
    else:
        _show(found)
    return OK


class Look(NamedTuple):
    """One line of the log that is a look into a mind."""

    attempt: int
    at: int
    said: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.said.get("step", 0))

    def plain(self) -> dict[str, Any]:
        return {"attempt": self.attempt, "at": iso_time(self.at), **self.said}


def _looks(client: Client, run_id: str, follow: bool) -> Iterator[Look]:
    for message in client.logs(run_id, follow=follow):
        for line in message.lines:
            if line.source == LogSource.MIND:
                yield Look(message.attempt, line.at, json.loads(line.text))


def _each(looks: Iterator[Look], as_json: bool) -> int:
    any_seen = False
    for look in looks:
        any_seen = True
        if as_json:
            say_json(look.plain())
        else:
            doing = escaped(", ".join(look.said["intentions"]) or "nothing")
            say(f"{clock(look.at)}  step {look.step:>9,}  {_confidence(look)}  {doing}")
    if not any_seen:
        note(NOTHING)
    return OK if any_seen else FAILED


def _confidence(look: Look) -> str:
    if look.said.get("confidence") is None:
        return ""
    share = min(max(float(look.said["confidence"]), 0.0), 1.0)
    filled = round(share * BAR)
    return drawable("█") * filled + drawable("░") * (BAR - filled) + f" {share:4.0%}"


def _show(look: Look) -> None:
    who = f" of {escaped(look.said['agent_id'])}" if look.said.get("agent_id") else ""
    say(f"The mind{who} at step {look.step:,}, attempt {look.attempt}, {clock(look.at)}", "bold")
    if confidence := _confidence(look):
        say(f"  confidence  {confidence}")
    for title in TITLES:
        words = look.said[title] or ["-"]
        say(f"  {title:<11} {escaped(words[0])}")
        for word in words[1:]:
            say(f"  {'':<11} {escaped(word)}")
