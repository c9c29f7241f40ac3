"""`runspine turns`: prompts and answers of language models that have played."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.run import run_argument, run_id_of
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import iso_time
from runspine.text.values import clock, escaped, escaped_block
from runspine.wire.v1.telemetry_pb2 import LogSource


class Turn(NamedTuple):
    """A prompt and its answer, from the logs of a run."""

    attempt: int
    at: int
    content: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        return {"attempt": self.attempt, "at": iso_time(self.at), **self.content}


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Follow new turns until the run's logs end.")
@click.option("--prompts", is_flag=True, help="Show what was asked, too.")
@json_option
def turns(run: str, follow: bool, prompts: bool, as_json: bool) -> int:
    """Show the turns of a language model: answers, and the actions taken from them.

    They are on record with the episodes: `runspine replay` plays them again without the model.
    """
    found = False
    with Client() as client:
        try:
            for turn in _turns(client, run_id_of(client, run), follow):
                found = True
                if as_json:
                    echo_json(turn.plain())
                else:
                    _show(turn, prompts)
        except KeyboardInterrupt:
            return OK
    if not found:
        note("no language model has played in this run")
    return OK if found else FAILED


def _turns(client: Client, run_id: str, follow: bool) -> Iterator[Turn]:
    for message in client.logs(run_id, follow=follow):
        for line in message.lines:
            if line.source == LogSource.TURN:
                yield Turn(message.attempt, line.at, json.loads(line.text))


def _show(turn: Turn, prompts: bool) -> None:
    content = turn.content
    if prompts:
        for asked in content["prompt"]:
            echo(f"{escaped(asked['role'])}:", "dim")
            echo(escaped_block(asked["content"]), "dim")
    action = f"→ {json.dumps(content['action'])}" if "action" in content else "→ no action"
    answer = escaped(" ".join(content["answer"].split()))[:200]
    head = f"{clock(turn.at)}  step {content['step']:>6,}  {escaped(content['actor'])}"
    echo(f"{head}  {answer!r} {action}  {content['seconds']:.2f} s")
    if problem := content.get("problem"):
        echo(f"  {escaped(problem)}", "yellow")
