"""Where a backup lies: a folder, which can be added to, or one tar file, which can be carried away."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from runspine.backup.index import NAME, Index, from_json, to_json
from runspine.errors import Invalid

OBJECTS = "objects"
CHUNK = 1 << 20


class Shelf(Protocol):
    name: str

    def index(self) -> Index:
        """What the backup holds. Raises Invalid when there is none."""

    def file(self, name: str) -> contextlib.AbstractContextManager[Path]:
        """One of its files, on disk for as long as the block takes. Raises Invalid when it is missing."""


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def index(self) -> Index:
        try:
            return from_json((self.path / NAME).read_bytes(), self.name)
        except FileNotFoundError:
            raise Invalid(
                f"{self.name} is not a finished backup: it has no {NAME}. "
                "Run `runspine backup` on it again to finish it"
            ) from None

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        path = self.place(name)
        if not path.is_file():
            raise Invalid(f"{self.name}: {name} is missing")
        yield path

    def place(self, name: str) -> Path:
        """Where a file of this name lies. Names come from a bucket and from an index: they stay inside."""
        if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise Invalid(f"{self.name}: {name!r} is not a name of a file in a backup")
        return self.path / name

    def finish(self, index: Index) -> None:
        """From here on this is the backup."""
        draft = self.path / f".{NAME}.draft"
        draft.write_bytes(to_json(index))
        self.adopt(draft, NAME)

    def adopt(self, draft: Path, name: str) -> None:
        """Give a draft its name, durably."""
        path = self.place(name)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def tidy(self, index: Index) -> int:
        """Remove objects that this backup does not need; how many."""
        needed = {f"{OBJECTS}/{kept.key}" for kept in index.objects}
        found = [path for path in (self.path / OBJECTS).rglob("*") if path.is_file()]
        left = [path for path in found if str(path.relative_to(self.path)) not in needed]
        for path in left:
            path.unlink()
        return len(left)


class Tar:
    """Read in place; a file is copied out only while it is needed."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.name = str(path)
        self._scratch = scratch
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115 - as long as the shelf is used
        except (tarfile.TarError, OSError) as error:
            raise Invalid(f"{path}: not a backup: {error}") from error

    def index(self) -> Index:
        with self._open(NAME) as file:
            return from_json(file.read(), self.name)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        target = self._scratch / hashlib.sha256(name.encode()).hexdigest()
        try:
            with self._open(name) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, CHUNK)
            yield target
        finally:
            target.unlink(missing_ok=True)

    def close(self) -> None:
        self._tar.close()

    def _open(self, name: str) -> IO[bytes]:
        try:
            found = self._tar.extractfile(name)
        except (KeyError, tarfile.TarError) as error:
            raise Invalid(f"{self.name}: {name} is missing") from error
        if found is None:
            raise Invalid(f"{self.name}: {name} is not a file")
        return found


def pack(folder: Folder, index: Index, target: Path) -> None:
    """The folder's backup as one file, which appears whole or not at all."""
    draft = target.with_name(f".{target.name}.draft")
    names = [NAME, *(c.file for c in index.chunks), *(f"{OBJECTS}/{kept.key}" for kept in index.objects)]
    try:
        with tarfile.open(draft, "w:", format=tarfile.PAX_FORMAT) as tar:
            for name in names:
                tar.add(folder.place(name), arcname=name, recursive=False)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def fingerprint(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    whole, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            whole.update(data)
            size += len(data)
    return size, whole.hexdigest()
