"""Where a backup is stored: a folder, which can be updated, or one tar file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from runspine.backup.index import NAME, BackupIndex, from_json, to_json
from runspine.errors import InvalidError

OBJECTS = "objects"
CHUNK_BYTES = 1 << 20


class BackupTarget(Protocol):
    """A backup that can be read."""

    name: str

    def index(self) -> BackupIndex:
        """The index of the backup. Raises InvalidError when there is none."""

    def file(self, name: str) -> contextlib.AbstractContextManager[Path]:
        """One of its files, on disk for the duration of the block.

        Raises InvalidError when it is missing.
        """


class Folder:
    """A backup in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def index(self) -> BackupIndex:
        try:
            return from_json((self.path / NAME).read_bytes(), self.name)
        except FileNotFoundError:
            raise InvalidError(
                f"{self.name} is not a finished backup: it has no {NAME}. "
                "Run `runspine backup` on it again to finish it"
            ) from None

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        path = self.path_of(name)
        if not path.is_file():
            raise InvalidError(f"{self.name}: {name} is missing")
        yield path

    def path_of(self, name: str) -> Path:
        """The path of a file. Names come from a bucket or an index and must stay inside the folder."""
        if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise InvalidError(f"{self.name}: {name!r} is not the name of a file in a backup")
        return self.path / name

    def finish(self, index: BackupIndex) -> None:
        """Write the index, which makes the folder a finished backup."""
        draft = self.path / f".{NAME}.draft"
        draft.write_bytes(to_json(index))
        self.adopt(draft, NAME)

    def adopt(self, draft: Path, name: str) -> None:
        """Rename a draft to its final name, durably."""
        path = self.path_of(name)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def tidy(self, index: BackupIndex) -> int:
        """Remove objects that this backup does not need; returns how many."""
        needed = {f"{OBJECTS}/{kept.key}" for kept in index.objects}
        found = [path for path in (self.path / OBJECTS).rglob("*") if path.is_file()]
        left = [path for path in found if str(path.relative_to(self.path)) not in needed]
        for path in left:
            path.unlink()
        return len(left)


class Tar:
    """A backup in a tar file; a file is copied out only while it is needed."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.name = str(path)
        self._scratch = scratch
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115 - closed by close()
        except (tarfile.TarError, OSError) as error:
            raise InvalidError(f"{path}: not a backup: {error}") from error

    def index(self) -> BackupIndex:
        with self._open(NAME) as file:
            return from_json(file.read(), self.name)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        target = self._scratch / hashlib.sha256(name.encode()).hexdigest()
        try:
            with self._open(name) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, CHUNK_BYTES)
            yield target
        finally:
            target.unlink(missing_ok=True)

    def close(self) -> None:
        self._tar.close()

    def _open(self, name: str) -> IO[bytes]:
        try:
            found = self._tar.extractfile(name)
        except (KeyError, tarfile.TarError) as error:
            raise InvalidError(f"{self.name}: {name} is missing") from error
        if found is None:
            raise InvalidError(f"{self.name}: {name} is not a file")
        return found


def pack(folder: Folder, index: BackupIndex, target: Path) -> None:
    """Write the folder's backup to one tar file, atomically."""
    draft = target.with_name(f".{target.name}.draft")
    names = [NAME, *(c.file for c in index.chunks), *(f"{OBJECTS}/{kept.key}" for kept in index.objects)]
    try:
        with tarfile.open(draft, "w:", format=tarfile.PAX_FORMAT) as tar:
            for name in names:
                tar.add(folder.path_of(name), arcname=name, recursive=False)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def fingerprint(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    whole, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            whole.update(data)
            size += len(data)
    return size, whole.hexdigest()
