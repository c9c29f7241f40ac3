"""Where witnesses are kept: objects in S3, and lines of a file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError

from runspine.anchors.tree import DIGEST_BYTES
from runspine.errors import InvalidError
from runspine.wire.v1.anchors_pb2 import TreeHead, Witness

if TYPE_CHECKING:
    from runspine.storage.blobs import Blobs

PREFIX = "anchors/"


def witness_key(series: str, stream: str, size: int | None = None) -> str:
    """The key of a witness in S3; without a size, the prefix of all of its stream."""
    return f"{PREFIX}{series}/{stream}/" + ("" if size is None else f"{size:020d}")


def leaves_in(witness: Witness) -> list[bytes]:
    """The leaves of a witness, the first of them at its position `first`."""
    data = witness.leaves
    return [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]


def plain_head(head: TreeHead) -> dict[str, object]:
    """A tree head as JSON, digests in base64."""
    found: dict[str, object] = MessageToDict(head, preserving_proto_field_name=True)
    return found


class WitnessSource(Protocol):
    """Witnesses of the streams, to compare the log with."""

    name: str

    def sizes(self, stream: str) -> Sequence[int]:
        """Sizes of the trees that are witnessed, ascending."""

    def load(self, stream: str, size: int) -> Witness | None:
        """The witness of a tree; None when it cannot be read."""


class StoredWitnesses:
    """Witnesses of one series in S3."""

    def __init__(self, blobs: Blobs, series: str) -> None:
        self.name = f"{PREFIX}{series} in S3"
        self._blobs = blobs
        self._series = series

    def sizes(self, stream: str) -> Sequence[int]:
        return asyncio.run(self.read_sizes(stream))

    def load(self, stream: str, size: int) -> Witness | None:
        return asyncio.run(self.read(stream, size))

    async def read_sizes(self, stream: str) -> list[int]:
        keys = await self._blobs.keys(witness_key(self._series, stream))
        names = (key.rpartition("/")[2] for key in keys)
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    async def read(self, stream: str, size: int) -> Witness | None:
        data = await self._blobs.get(witness_key(self._series, stream, size))
        try:
            return Witness.FromString(data) if data is not None else None
        except DecodeError:
            return None


class WitnessFile:
    """Witnesses as lines of JSON. A line that cannot be read is passed over and counted."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.unreadable = 0
        self._path = path
        # Offsets of the lines, by stream and size.
        self._lines: dict[str, dict[int, int]] = {}

    def append(self, witness: Witness) -> None:
        """Write a witness durably."""
        line = json.dumps(MessageToDict(witness, preserving_proto_field_name=True)).encode()
        with self._path.open("ab") as file:
            # After a torn line, the next one is whole again.
            file.write(b"\n" + line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def index(self, series: str) -> None:
        """Read which witnesses of a series there are. Raises InvalidError."""
        try:
            with self._path.open("rb") as file:
                at = 0
                for line in file:
                    if line.strip():
                        self._note(line, at, series)
                    at += len(line)
        except OSError as error:
            raise InvalidError(f"--witness {self._path}: {error.strerror or error}") from error

    def sizes(self, stream: str) -> Sequence[int]:
        return sorted(self._lines.get(stream, ()))

    def load(self, stream: str, size: int) -> Witness | None:
        at = self._lines.get(stream, {}).get(size)
        if at is None:
            return None
        with self._path.open("rb") as file:
            file.seek(at)
            return _parsed(file.readline())

    def _note(self, line: bytes, at: int, series: str) -> None:
        witness = _parsed(line)
        if witness is None:
            self.unreadable += 1
        elif witness.head.series == series:
            self._lines.setdefault(witness.head.stream, {})[witness.head.size] = at


def _parsed(line: bytes) -> Witness | None:
    try:
        return ParseDict(json.loads(line), Witness(), ignore_unknown_fields=True)
    except (ValueError, ParseError):
        return None
