"""Where the witnesses of the log are: in S3, and in the files that are named."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import click

from runspine.anchors.witnesses import StoredWitnesses, WitnessFile, WitnessSource
from runspine.errors import RefusedError

witness_option = click.option(
    "--witness",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file of witnesses (RUNSPINE_ANCHOR_FILE), in addition to those in S3; repeatable.",
)
series_option = click.option(
    "--series",
    envvar="RUNSPINE_ANCHOR_SERIES",
    default="1",
    show_default=True,
    help="Series of witnesses to read.",
)


def witness_sources(
    files: Sequence[Path], series: str, *, stored: bool = True
) -> tuple[list[WitnessSource], list[str]]:
    """The sources that can be read, and why others cannot. Raises InvalidError."""
    sources: list[WitnessSource] = []
    unread: list[str] = []
    for path in files:
        file = WitnessFile(path)
        file.index(series)
        sources.append(file)
        if file.unreadable:
            unread.append(f"{file.unreadable} lines of {path} are damaged")
    if stored:
        try:
            sources.append(_stored(series))
        except RefusedError as error:
            unread.append(str(error))
    return sources, unread


def _stored(series: str) -> StoredWitnesses:
    """The witnesses in S3. Raises RefusedError where it is not known or does not answer."""
    from runspine.backup.site import running_site
    from runspine.storage.anchor_blobs import AnchorBlobs
    from runspine.storage.blobs import BlobsUnavailableError

    if os.environ.get("RUNSPINE_ADDRESS") and not os.environ.get("RUNSPINE_NATS_URL"):
        raise RefusedError(
            "S3 is not known: set RUNSPINE_NATS_URL and RUNSPINE_S3_*, or name a file with --witness"
        )
    blobs = AnchorBlobs(running_site(), os.environ.get("RUNSPINE_ANCHOR_BUCKET", ""))
    source = StoredWitnesses(blobs, series)
    try:
        asyncio.run(source.read_sizes("RUNS"))
    except BlobsUnavailableError as error:
        raise RefusedError(str(error)) from error
    return source
