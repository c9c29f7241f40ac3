"""What commands share when they ask the stack about a run."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import click

from runspine.cli.text import moment
from runspine.client import Client
from runspine.errors import NotFound, Unreachable
from runspine.ids import is_ulid
from runspine.wire.v1.trainer_pb2 import GetResponse

run_argument = click.argument("run", metavar="RUN")
_ID_PART = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{4,26}\Z")


def find(client: Client, text: str) -> GetResponse:
    """By id, unique beginning of an id (in either case), or name."""
    try:
        return client.get(text)
    except NotFound:
        if text == text.upper() or not _ID_PART.match(text):
            raise
    return client.get(text.upper())


def run_id_of(client: Client, text: str) -> str:
    """The full id. One that is given in full needs no orchestrator to be known."""
    try:
        return find(client, text).run.id
    except Unreachable:
        if is_ulid(text.upper()):
            return text.upper()
        raise


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """key=value words as a dict."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option} {text}: expected key=value")
        found[key] = value
    return found


def moment_option(text: str | None, option: str) -> int:
    if not text:
        return 0
    try:
        return moment(text, time.time())
    except ValueError as error:
        raise click.UsageError(
            f"{option} {text}: expected an age such as 2h or 3d, or a date and time"
        ) from error
