"""`runspine pin` and `unpin`: what stays whatever a rule says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from runspine.artifact_client import ArtifactClient
from runspine.cli.edge import EXIT_CODES, OK, json_option, report
from runspine.cli.screen import say, say_json
from runspine.cli.text import escaped
from runspine.client import Client
from runspine.errors import RunspineError
from runspine.plain import to_plain
from runspine.wire.v1.artifacts_pb2 import PinResponse

references = click.argument("references", nargs=-1, required=True, metavar="REFERENCE|RUN...")


@click.command()
@references
@click.option("--reason", default="", help="Why; it is kept on the log.")
@json_option
@click.pass_context
def pin(ctx: click.Context, references: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Keep artifacts whatever the rules say; a run pins all it has and will have."""
    with Client() as client:
        remote = ArtifactClient(client)
        ctx.exit(_each(references, lambda text: remote.pin(text, reason), "pinned", as_json))


@click.command()
@references
@json_option
@click.pass_context
def unpin(ctx: click.Context, references: tuple[str, ...], as_json: bool) -> None:
    """Leave artifacts to the rules again."""
    with Client() as client:
        ctx.exit(_each(references, ArtifactClient(client).unpin, "unpinned", as_json))


def _each(references: tuple[str, ...], do: Callable[[str], PinResponse], word: str, as_json: bool) -> int:
    told: list[Any] = []
    code = OK
    for text in references:
        try:
            answer = do(text)
        except RunspineError as error:
            report(error.kind, f"{text}: {error}", as_json)
            code = code or EXIT_CODES[error.kind]
            continue
        told.append(to_plain(answer))
        if as_json:
            continue
        if answer.run_id:
            say(f"{word}  run {answer.run_id}, {len(answer.artifacts)} artifacts")
        for artifact in answer.artifacts if not answer.run_id else ():
            say(f"{word}  {artifact.digest[:12]}  {escaped(artifact.name)} of run {artifact.run_id}")
    if as_json:
        say_json({word: told})
    return code
