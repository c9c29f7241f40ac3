"""Untrusted archives: entries are checked and bounded before anything is unpacked."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from runspine.checkpoints.errors import CheckpointError

CHUNK_BYTES = 1 << 20
# Errors that zipfile raises for damaged archives.
ZIP_ERRORS = (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, OSError, RuntimeError)
_ENCRYPTED = 0x1
_HEADER = 30  # a local header without its names


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of an archive; one that exceeds them is refused."""

    entries: int = 20_000
    total: int = 16 << 30
    # Weights hardly compress: an entry with a higher ratio is not a network. Small entries are exempt.
    ratio: float = 100.0
    small: int = 8 << 20
    # Entries that are exempt from the ratio, because they are only read as a stream.
    streamed: frozenset[str] = frozenset()


def entries_of(source: Path | IO[bytes], name: str, bounds: Bounds | None = None) -> list[zipfile.ZipInfo]:
    """The entries of a zip after all checks. Raises CheckpointError with the first problem."""
    bounds = bounds or Bounds()
    try:
        with zipfile.ZipFile(source) as archive:
            found = archive.infolist()
    except ZIP_ERRORS as error:
        raise CheckpointError(f"{name} is truncated or damaged: {error}") from error
    _check_size(name, found, bounds)
    seen: set[str] = set()
    for entry in found:
        if problem := _problem(entry):
            raise CheckpointError(f"{name} holds {_shown(entry.filename)}, {problem}")
        if entry.filename in seen:
            raise CheckpointError(f"{name} holds {_shown(entry.filename)} twice: it is ambiguous")
        seen.add(entry.filename)
    _check_overlaps(name, found)
    return found


def _check_size(name: str, found: list[zipfile.ZipInfo], bounds: Bounds) -> None:
    if len(found) > bounds.entries:
        raise CheckpointError(
            f"{name} holds {len(found):,} entries, more than the {bounds.entries:,} accepted"
        )
    total = sum(entry.file_size for entry in found)
    if total > bounds.total:
        raise CheckpointError(
            f"{name} would decompress to {total:,} bytes, more than the {bounds.total:,} accepted: a zip bomb"
        )
    for entry in found:
        if entry.filename in bounds.streamed:
            continue
        if entry.file_size > bounds.small and entry.file_size > bounds.ratio * max(entry.compress_size, 1):
            raise CheckpointError(
                f"{name} holds {_shown(entry.filename)}, which decompresses from {entry.compress_size:,} to "
                f"{entry.file_size:,} bytes: a zip bomb"
            )


def _problem(entry: zipfile.ZipInfo) -> str:
    name = entry.filename
    if not name or "\0" in name or any(ord(letter) < 32 for letter in name):
        return "a name with control characters"
    if name.startswith(("/", "\\")) or PurePosixPath(name).is_absolute() or name[1:2] == ":":
        return "an absolute path: it would be written outside"
    if ".." in name.replace("\\", "/").split("/"):
        return "a path that leads outside"
    if "\\" in name:
        return "a path with backslashes, which another system reads otherwise"
    if entry.flag_bits & _ENCRYPTED:
        return "which is encrypted"
    mode = entry.external_attr >> 16
    if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a link" if stat.S_ISLNK(mode) else "which is neither a file nor a folder"
    return ""


def _check_overlaps(name: str, found: list[zipfile.ZipInfo]) -> None:
    """Refuse overlapping entries, which expand a small file without a suspicious ratio."""
    end = 0
    for entry in sorted(found, key=lambda each: each.header_offset):
        if entry.header_offset < end:
            raise CheckpointError(
                f"{name} holds {_shown(entry.filename)}, which overlaps another: a zip bomb"
            )
        end = entry.header_offset + _HEADER + entry.compress_size


def check_sums(source: Path | IO[bytes], name: str) -> None:
    """Read every entry against its checksum. Raises CheckpointError."""
    try:
        with zipfile.ZipFile(source) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as stream:
                    while stream.read(CHUNK_BYTES):
                        pass
    except (*ZIP_ERRORS, zlib.error, lzma.LZMAError) as error:
        raise CheckpointError(f"{name} is truncated or damaged: {error}") from error


def read_entry(source: Path | IO[bytes], entry_name: str, limit: int, name: str) -> bytes:
    """Read one entry. Raises CheckpointError when it exceeds the limit or is damaged."""
    try:
        with zipfile.ZipFile(source) as archive:
            entry = archive.getinfo(entry_name)
            if entry.file_size > limit:
                raise CheckpointError(
                    f"{name}: {_shown(entry_name)} has {entry.file_size:,} bytes, and {limit:,} are accepted"
                )
            with archive.open(entry) as stream:
                return stream.read(limit + 1)
    except (*ZIP_ERRORS, zlib.error, lzma.LZMAError, KeyError) as error:
        raise CheckpointError(f"{name} is truncated or damaged: {error}") from error


def unpack(path: Path, folder: Path, bounds: Bounds | None = None) -> None:
    """Unpack into a folder. Raises CheckpointError before anything is written."""
    found = entries_of(path, path.name, bounds)
    check_sums(path, path.name)
    home = folder.resolve()
    with zipfile.ZipFile(path) as archive:
        for entry in found:
            target = home / entry.filename
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True, mode=0o700)
                continue
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with archive.open(entry) as source, target.open("xb") as out:
                while piece := source.read(CHUNK_BYTES):
                    out.write(piece)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "…")
