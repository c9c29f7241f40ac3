"""The index of a backup: written last, so that a folder without it is an unfinished backup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from runspine.errors import InvalidError

NAME = "runspine-backup.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """A file with a contiguous part of one stream."""

    file: str
    stream: str
    first: int
    last: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupObject:
    """An object of the bucket."""

    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupIndex:
    """The contents of a backup."""

    # When the ends of the streams were taken, in microseconds.
    made_at: int
    version: str
    # The last sequence of each stream of facts.
    facts: Mapping[str, int]
    # Positions of TELEMETRY after the archive: the first that is not in it, and the last of the stream.
    tail_first: int
    tail_last: int
    chunks: tuple[Chunk, ...]
    objects: tuple[BackupObject, ...]
    # Digests that the facts name and S3 did not have.
    missing: tuple[str, ...] = field(default=())

    @property
    def commits(self) -> int:
        return sum(self.facts.values())

    @property
    def bytes(self) -> int:
        return sum(chunk.size for chunk in self.chunks) + sum(kept.size for kept in self.objects)

    def chunks_of(self, stream: str) -> list[Chunk]:
        """The files of a stream, in order."""
        return sorted((c for c in self.chunks if c.stream == stream), key=lambda chunk: chunk.first)


def to_json(index: BackupIndex) -> bytes:
    return (json.dumps({"format": FORMAT, **asdict(index)}, indent=1) + "\n").encode()


def from_json(data: bytes, where: str) -> BackupIndex:
    """Parse an index. Raises InvalidError."""
    try:
        fields: dict[str, Any] = json.loads(data)
        number = fields.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidError(f"{where}: {NAME} cannot be read: {error}") from error
    if number != FORMAT:
        raise InvalidError(
            f"{where}: a backup of format {number}, and this release knows format {FORMAT}: "
            "use the release that made it, or a newer one"
        )
    try:
        chunks = tuple(Chunk(**chunk) for chunk in fields.pop("chunks"))
        objects = tuple(BackupObject(**kept) for kept in fields.pop("objects"))
        missing = tuple(fields.pop("missing"))
        return BackupIndex(**fields, chunks=chunks, objects=objects, missing=missing)
    except (KeyError, TypeError) as error:
        raise InvalidError(f"{where}: {NAME} cannot be read: {error}") from error
