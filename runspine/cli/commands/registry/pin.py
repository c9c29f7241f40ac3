"""`runspine pin` and `unpin`: exempt artifacts from retention rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from runspine.cli.errors import EXIT_CODES, OK, json_option, report
from runspine.cli.ui.screen import echo, echo_json
from runspine.errors import RunspineError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import escaped
from runspine.wire.v1.artifacts_pb2 import PinResponse

references = click.argument("references", nargs=-1, required=True, metavar="REFERENCE|RUN...")


@click.command()
@references
@click.option("--reason", default="", help="Reason, stored in the log.")
@json_option
@click.pass_context
def pin(ctx: click.Context, references: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Exempt artifacts from retention rules; pinning a run pins all its artifacts, also later ones."""
    with Client() as client:
        remote = ArtifactClient(client)
        ctx.exit(_each(references, lambda text: remote.pin(text, reason), "pinned", as_json))


@click.command()
@references
@json_option
@click.pass_context
def unpin(ctx: click.Context, references: tuple[str, ...], as_json: bool) -> None:
    """Remove pins."""
    with Client() as client:
        ctx.exit(_each(references, ArtifactClient(client).unpin, "unpinned", as_json))


def _each(references: tuple[str, ...], do: Callable[[str], PinResponse], word: str, as_json: bool) -> int:
    answers: list[Any] = []
    code = OK
    for text in references:
        try:
            answer = do(text)
        except RunspineError as error:
            report(error.kind, f"{text}: {error}", as_json)
            code = code or EXIT_CODES[error.kind]
            continue
        answers.append(to_plain(answer))
        if as_json:
            continue
        if answer.run_id:
            echo(f"{word}  run {answer.run_id}, {len(answer.artifacts)} artifacts")
        for artifact in answer.artifacts if not answer.run_id else ():
            echo(f"{word}  {artifact.digest[:12]}  {escaped(artifact.name)} of run {artifact.run_id}")
    if as_json:
        echo_json({word: answers})
    return code
