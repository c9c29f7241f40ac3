"""A dataset in one uncompressed zip: its manifest and its data, with a checksum of every file."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from runspine.datasets.errors import DatasetError
from runspine.datasets.manifest import MAX_MANIFEST_BYTES, NAME, DataFile, Manifest, read_manifest

CHUNK_BYTES = 1 << 20
SUFFIX = ".dataset.zip"
# A fixed time, so that the same data gives the same archive.
_WHEN = (1980, 1, 1, 0, 0, 0)
ReportProgress = Callable[[int], None]
# Bytes read so far, and in all.
ReportRead = Callable[[int, int], None]
# Bytes of an object from an offset, at most so many.
ReadRange = Callable[[int, int], bytes]
# Before each file of a zip: signature, versions, flags, method, time, CRC, sizes, lengths of name and extra.
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"
_SIZE_FOLLOWS = 8


def data_files(folder: Path) -> tuple[DataFile, ...]:
    """Every file below a folder with its checksum. Raises DatasetError, also for links."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise DatasetError(f"{name} is a link: copy the file itself")
        if path.is_file() and name != NAME:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found.append(DataFile(name, path.stat().st_size, digest))
    return tuple(found)


def pack(folder: Path, manifest: Manifest, target: Path) -> Manifest:
    """Write the archive of a folder; returns the manifest with its files. Raises DatasetError."""
    whole = replace(manifest, files=data_files(folder))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(_entry(NAME), "w") as inner:
            inner.write(whole.to_json().encode())
        for each in whole.files:
            with archive.open(_entry(each.path), "w", force_zip64=each.size >= 1 << 31) as inner:
                digest = _copy((folder / each.path).open("rb"), inner)
            if digest != each.sha256:
                raise DatasetError(f"{each.path} changed while it was packed: try again")
    return whole


def manifest_of(archive: Path) -> Manifest:
    """The manifest of an archive. Raises DatasetError."""
    with _opened(archive) as inside:
        return _manifest_in(inside, archive.name)


def manifest_at_start(read: ReadRange) -> Manifest | None:
    """The manifest of an archive of which only ranges are read; None when it does not begin with one.

    `pack` writes it first. Raises DatasetError.
    """
    head = read(0, _LOCAL_HEADER.size + len(NAME))
    if len(head) < _LOCAL_HEADER.size:
        return None
    signature, _, flags, method, _, _, _, _, size, name, extra = _LOCAL_HEADER.unpack_from(head)
    whole = signature == _LOCAL_SIGNATURE and method == zipfile.ZIP_STORED and not flags & _SIZE_FOLLOWS
    if not whole or head[_LOCAL_HEADER.size :] != NAME.encode() or size > MAX_MANIFEST_BYTES:
        return None
    return read_manifest(read(_LOCAL_HEADER.size + name + extra, size))


def check_archive(archive: Path, report: ReportRead | None = None) -> Manifest:
    """Compare every file with the manifest. Raises DatasetError, which names the file."""
    with _opened(archive) as inside:
        manifest = _manifest_in(inside, archive.name)
        count = _ReadCount(manifest, report)
        for each in manifest.files:
            _compare(each, *_read_entry(inside, each, None, count))
        return manifest


def unpack(archive: Path, folder: Path, report: ReportProgress | None = None) -> Manifest:
    """Unpack into a new folder, checking each file; leaves nothing when it fails. Raises DatasetError."""
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        with _opened(archive) as inside:
            manifest = _manifest_in(inside, archive.name)
            for each in manifest.files:
                path = draft / each.path
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    _compare(each, *_read_entry(inside, each, file))
                path.chmod(0o444)
                if report:
                    report(each.size)
        (draft / NAME).write_text(manifest.to_json())
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return manifest


def check_folder(folder: Path, report: ReportRead | None = None) -> Manifest:
    """Compare an unpacked dataset with its manifest. Raises DatasetError, which names the file."""
    try:
        manifest = read_manifest((folder / NAME).read_bytes())
    except OSError as error:
        raise DatasetError(f"{NAME} cannot be read: {error.strerror}") from error
    count = _ReadCount(manifest, report)
    for each in manifest.files:
        path = folder / each.path
        try:
            with path.open("rb") as file:
                size, digest = _digest_of(file, count)
        except OSError as error:
            raise DatasetError(f"{each.path} cannot be read: {error.strerror}") from error
        _compare(each, size, digest)
    return manifest


class _ReadCount:
    """Reports the bytes read of all files together."""

    def __init__(self, manifest: Manifest, report: ReportRead | None) -> None:
        self._report = report
        self._total = sum(each.size for each in manifest.files)
        self._done = 0

    def add(self, size: int) -> None:
        self._done += size
        if self._report:
            self._report(self._done, self._total)


def _digest_of(file: IO[bytes], count: _ReadCount) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while data := file.read(CHUNK_BYTES):
        digest.update(data)
        size += len(data)
        count.add(len(data))
    return size, digest.hexdigest()


def _compare(each: DataFile, size: int, digest: str) -> None:
    if size != each.size:
        raise DatasetError(f"{each.path} has {size:,} bytes, and its manifest states {each.size:,}")
    if digest != each.sha256:
        raise DatasetError(
            f"{each.path} differs from its manifest: SHA-256 {digest[:12]}… instead of {each.sha256[:12]}…"
        )


def _manifest_in(inside: zipfile.ZipFile, name: str) -> Manifest:
    try:
        entry = inside.getinfo(NAME)
        if entry.file_size > MAX_MANIFEST_BYTES:
            raise DatasetError(f"{NAME} has {entry.file_size:,} bytes, more than a manifest needs")
        return read_manifest(inside.read(NAME))
    except KeyError:
        raise DatasetError(f"{name} holds no {NAME}: it is not a dataset of Runspine") from None
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise DatasetError(f"{NAME} is damaged: {error}") from error


def _read_entry(
    inside: zipfile.ZipFile, each: DataFile, target: IO[bytes] | None, count: _ReadCount | None = None
) -> tuple[int, str]:
    """Size and SHA-256 of an entry; at most the size in its manifest is written."""
    digest, size = hashlib.sha256(), 0
    try:
        with inside.open(each.path) as file:
            while data := file.read(CHUNK_BYTES):
                size += len(data)
                if size > each.size:
                    break
                digest.update(data)
                if target:
                    target.write(data)
                if count:
                    count.add(len(data))
    except KeyError:
        raise DatasetError(f"{each.path} is missing") from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise DatasetError(f"{each.path} differs from its manifest: {error}") from error
    return size, digest.hexdigest()


def _opened(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except OSError as error:
        raise DatasetError(f"{archive.name} cannot be read: {error.strerror}") from error
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise DatasetError(f"{archive.name} is not a dataset of Runspine: {error}") from error


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _WHEN)
    entry.external_attr = 0o644 << 16
    return entry


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    digest = hashlib.sha256()
    with source:
        while data := source.read(CHUNK_BYTES):
            digest.update(data)
            target.write(data)
    return digest.hexdigest()
