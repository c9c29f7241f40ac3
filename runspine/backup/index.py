"""What a backup holds: written last, so that a folder without it is not a backup yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from runspine.errors import Invalid

NAME = "runspine-backup.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """A file with an unbroken piece of one stream."""

    file: str
    stream: str
    first: int
    last: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Kept:
    """An object of the bucket."""

    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Index:
    # Microseconds, when the cut through the facts was made.
    made_at: int
    version: str
    # How far each stream of facts reaches.
    facts: Mapping[str, int]
    # Positions of TELEMETRY behind the archive: the first that is not in it, and the last there is.
    tail_first: int
    tail_last: int
    chunks: tuple[Chunk, ...]
    objects: tuple[Kept, ...]
    # Digests that the log keeps and S3 did not have.
    missing: tuple[str, ...] = field(default=())

    @property
    def commits(self) -> int:
        return sum(self.facts.values())

    @property
    def bytes(self) -> int:
        return sum(chunk.size for chunk in self.chunks) + sum(kept.size for kept in self.objects)

    def of(self, stream: str) -> list[Chunk]:
        """The files of a stream, in order."""
        return sorted((c for c in self.chunks if c.stream == stream), key=lambda chunk: chunk.first)


def to_json(index: Index) -> bytes:
    return (json.dumps({"format": FORMAT, **asdict(index)}, indent=1) + "\n").encode()


def from_json(data: bytes, where: str) -> Index:
    """Raises Invalid with what is wrong."""
    try:
        told: dict[str, Any] = json.loads(data)
        number = told.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Invalid(f"{where}: {NAME} cannot be read: {error}") from error
    if number != FORMAT:
        raise Invalid(
            f"{where}: a backup of format {number}, and this release knows format {FORMAT}: "
            "use the release that made it, or a newer one"
        )
    try:
        chunks = tuple(Chunk(**chunk) for chunk in told.pop("chunks"))
        objects = tuple(Kept(**kept) for kept in told.pop("objects"))
        missing = tuple(told.pop("missing"))
        return Index(**told, chunks=chunks, objects=objects, missing=missing)
    except (KeyError, TypeError) as error:
        raise Invalid(f"{where}: {NAME} cannot be read: {error}") from error
