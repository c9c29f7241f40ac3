"""Which file stores a nats-server has on its disk: streams, and the Raft groups of a cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.nats_store.highway import hash_of, key_of

JETSTREAM = "jetstream"
MESSAGES = "msgs"
META, META_SUM, META_KEY = "meta.inf", "meta.sum", "meta.key"
INDEX = "index.db"
SNAPSHOTS = "snapshots"
_INDEX_MAGIC = 11
_CHECKSUM = 8


@dataclass(frozen=True, slots=True)
class FileStore:
    """One folder with blocks."""

    path: Path
    raft: bool
    name: str
    config: dict[str, Any]
    # What is wrong with the description of the store.
    trouble: str = ""

    @property
    def encrypted(self) -> bool:
        return (self.path / META_KEY).exists()

    @property
    def keeps_everything(self) -> bool:
        """Nothing is ever deleted from it, so its positions have no gaps."""
        return bool(
            self.config.get("deny_delete")
            and self.config.get("deny_purge")
            and self.config.get("retention") == "limits"
            and self.config.get("discard") == "new"
            and not self.config.get("max_age")
            and self.config.get("max_msgs_per_subject", -1) <= 0
        )

    def blocks(self) -> list[tuple[int, Path]]:
        """Block files with their numbers, oldest first."""
        found = (self.path / MESSAGES).glob("*.blk")
        return sorted((int(path.stem), path) for path in found if path.stem.isdigit())

    def snapshots(self) -> list[Path]:
        """Snapshots of a Raft group."""
        folder = self.path / SNAPSHOTS
        return sorted(path for path in folder.glob("snap.*") if path.suffix != ".tmp") if self.raft else []


def jetstream_of(directory: Path) -> Path:
    """The folder that nats-server makes in its store_dir, which may be given itself."""
    inner = directory / JETSTREAM
    return directory if directory.name == JETSTREAM and not inner.is_dir() else inner


def find_stores(directory: Path) -> list[FileStore]:
    """Every file store of a server's store_dir."""
    root = jetstream_of(directory)
    folders = [*root.glob("*/streams/*"), *root.glob("*/_js_/*")]
    return [_store(path) for path in sorted(folders) if (path / MESSAGES).is_dir() and path.name[0] != "."]


def _store(path: Path) -> FileStore:
    raft = path.parent.name == "_js_"
    config, trouble = _description(path)
    # The folder is named like the stream or group, so blocks can be checked without a description.
    return FileStore(path, raft, str(config.get("name") or path.name), config, trouble)


def _description(path: Path) -> tuple[dict[str, Any], str]:
    """The configuration in meta.inf; what is wrong with it."""
    try:
        text = (path / META).read_bytes()
    except FileNotFoundError:
        return {}, f"{META} is missing" if any((path / MESSAGES).glob("[0-9]*.blk")) else ""
    if (path / META_KEY).exists():
        return {}, ""
    try:
        config = json.loads(text)
    except ValueError:
        return {}, f"{META} is not readable"
    if not isinstance(config, dict):
        return {}, f"{META} is not readable"
    checksum = path / META_SUM
    # It is written after meta.inf: a server that is killed in between leaves none.
    if checksum.exists() and checksum.read_bytes() != _hex_hash(path.name, text):
        return config, f"{META} does not match {META_SUM}"
    return config, ""


def _hex_hash(name: str, text: bytes) -> bytes:
    return hash_of(key_of(name), text).to_bytes(_CHECKSUM, "little").hex().encode()


def is_whole(name: str, content: bytes) -> bool:
    """Whether a file ends with the checksum of what is before, as index.db and snapshots do."""
    body, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
    return (
        len(checksum) == _CHECKSUM and hash_of(key_of(name), body).to_bytes(_CHECKSUM, "little") == checksum
    )


def indexed_last(store: FileStore) -> int:
    """The last position by index.db, which is written at a clean end; 0 if it is not there."""
    try:
        content = (store.path / MESSAGES / INDEX).read_bytes()
    except FileNotFoundError:
        return 0
    if store.encrypted or content[:1] != bytes([_INDEX_MAGIC]) or not is_whole(store.name, content):
        return 0
    at, value = 2, 0
    # Messages, bytes, first sequence, first time, last sequence.
    for _ in range(5):
        value, at = _varint(content, at)
    return value


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while content[at] & 0x80:
        value |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | content[at] << shift, at + 1
