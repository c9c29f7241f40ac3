"""Archives from outside: what is in them is looked at before anything is unpacked, and bounded."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from runspine.checkpoints.bad import BadCheckpoint

CHUNK = 1 << 20
# What the reader of archives raises for damaged ones.
FLAWS = (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, OSError, RuntimeError)
_ENCRYPTED = 0x1
_HEADER = 30  # a local header without its names


@dataclass(frozen=True, slots=True)
class Bounds:
    """More than this, and it is not a checkpoint but an attack, or a mistake."""

    entries: int = 20_000
    total: int = 16 << 30
    # Weights hardly shrink; what unfolds a hundredfold is no network. Small entries may.
    ratio: float = 100.0
    small: int = 8 << 20
    # Names of entries that may shrink as they like, because nobody unfolds them whole.
    streamed: frozenset[str] = frozenset()


def entries_of(source: Path | IO[bytes], name: str, bounds: Bounds | None = None) -> list[zipfile.ZipInfo]:
    """The entries of a zip, all of them harmless. Raises BadCheckpoint with the first flaw."""
    bounds = bounds or Bounds()
    try:
        with zipfile.ZipFile(source) as archive:
            found = archive.infolist()
    except FLAWS as error:
        raise BadCheckpoint(f"{name} is truncated or damaged: {error}") from error
    _check_size(name, found, bounds)
    seen: set[str] = set()
    for entry in found:
        if flaw := _flaw(entry):
            raise BadCheckpoint(f"{name} holds {_shown(entry.filename)}, {flaw}")
        if entry.filename in seen:
            raise BadCheckpoint(f"{name} holds {_shown(entry.filename)} twice: it is not clear which counts")
        seen.add(entry.filename)
    _check_overlaps(name, found)
    return found


def _check_size(name: str, found: list[zipfile.ZipInfo], bounds: Bounds) -> None:
    if len(found) > bounds.entries:
        raise BadCheckpoint(f"{name} holds {len(found):,} entries, more than the {bounds.entries:,} accepted")
    total = sum(entry.file_size for entry in found)
    if total > bounds.total:
        raise BadCheckpoint(
            f"{name} would unfold to {total:,} bytes, more than the {bounds.total:,} accepted: a zip bomb"
        )
    for entry in found:
        if entry.filename in bounds.streamed:
            continue
        if entry.file_size > bounds.small and entry.file_size > bounds.ratio * max(entry.compress_size, 1):
            raise BadCheckpoint(
                f"{name} holds {_shown(entry.filename)}, which unfolds from {entry.compress_size:,} to "
                f"{entry.file_size:,} bytes: a zip bomb"
            )


def _flaw(entry: zipfile.ZipInfo) -> str:
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
    """Entries that share their bytes are how a small file unfolds without a suspicious ratio."""
    end = 0
    for entry in sorted(found, key=lambda each: each.header_offset):
        if entry.header_offset < end:
            raise BadCheckpoint(f"{name} holds {_shown(entry.filename)}, which overlaps another: a zip bomb")
        end = entry.header_offset + _HEADER + entry.compress_size


def check_sums(source: Path | IO[bytes], name: str) -> None:
    """Read every entry against its checksum. Raises BadCheckpoint."""
    try:
        with zipfile.ZipFile(source) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as stream:
                    while stream.read(CHUNK):
                        pass
    except (*FLAWS, zlib.error, lzma.LZMAError) as error:
        raise BadCheckpoint(f"{name} is truncated or damaged: {error}") from error


def read_entry(source: Path | IO[bytes], entry_name: str, most: int, name: str) -> bytes:
    """One entry whole. Raises BadCheckpoint when it is larger, or damaged."""
    try:
        with zipfile.ZipFile(source) as archive:
            entry = archive.getinfo(entry_name)
            if entry.file_size > most:
                raise BadCheckpoint(
                    f"{name}: {_shown(entry_name)} has {entry.file_size:,} bytes, and {most:,} are accepted"
                )
            with archive.open(entry) as stream:
                return stream.read(most + 1)
    except (*FLAWS, zlib.error, lzma.LZMAError, KeyError) as error:
        raise BadCheckpoint(f"{name} is truncated or damaged: {error}") from error


def unpack(path: Path, folder: Path, bounds: Bounds | None = None) -> None:
    """Into a folder of its own, nowhere else. Raises BadCheckpoint before anything is written."""
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
                while piece := source.read(CHUNK):
                    out.write(piece)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "…")
