"""Resolve a run by id, prefix or name, and parse options that several commands share."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import click

from runspine.errors import RunNotFoundError, UnreachableError
from runspine.ids import is_ulid
from runspine.rpc.trainer_client import Client
from runspine.text.values import moment
from runspine.wire.v1.trainer_pb2 import GetResponse

run_argument = click.argument("run", metavar="RUN")
_ID_PART = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{4,26}\Z")


def find(client: Client, text: str) -> GetResponse:
    """Return the run with this id, unique id prefix (in either case) or name."""
    try:
        return client.get(text)
    except RunNotFoundError:
        if text == text.upper() or not _ID_PART.match(text):
            raise
    return client.get(text.upper())


def run_id_of(client: Client, text: str) -> str:
    """Return the full run id. A full id is accepted even when the orchestrator is unreachable."""
    try:
        return find(client, text).run.id
    except UnreachableError:
        if is_ulid(text.upper()):
            return text.upper()
        raise


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parse key=value arguments."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option} {text}: expected key=value")
        found[key] = value
    return found


def parse_time_option(text: str | None, option: str) -> int:
    if not text:
        return 0
    try:
        return moment(text, time.time())
    except ValueError as error:
        raise click.UsageError(
            f"{option} {text}: expected an age such as 2h or 3d, or a date and time"
        ) from error
