"""Digests of files by their status, so that unchanged files are not read again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

from runspine.code.project_files import CodeRefusedError, ProjectFile

# A file changed within so long before it was read may change again without another time stamp.
RACY_NANOSECONDS = 2_000_000_000
CHUNK = 1 << 20
VERSION = 1
_PRIVATE_KEY = b"PRIVATE KEY-----"
_BEGIN = b"-----BEGIN "


class DigestCache:
    """The digests of one folder's files, kept in the user's cache directory. A lost cache costs time only."""

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        folder = folder or cache_folder()
        self._path = folder / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"
        self._known = self._load()
        self._seen: dict[str, list[object]] = {}
        self.read_files = 0

    def digest(self, root: Path, file: ProjectFile, *, keys_allowed: bool = False) -> str:
        """SHA-256 of a file. Raises CodeRefusedError when it is a private key, or changes meanwhile."""
        known = self._known.get(file.path)
        mark = _mark(file.status)
        if known is not None and known[:-1] == mark:
            self._seen[file.path] = known
            return str(known[-1])
        now = time.time_ns()
        digest = _read(root / file.path, file, keys_allowed)
        self.read_files += 1
        if (
            not keys_allowed
            and now - max(file.status.st_mtime_ns, file.status.st_ctime_ns) > RACY_NANOSECONDS
        ):
            self._seen[file.path] = [*mark, digest]
        return digest

    def save(self) -> None:
        """Store what was seen; a cache that cannot be written is no error."""
        if self._seen == self._known:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False) as draft:
                json.dump({"version": VERSION, "files": self._seen}, draft)
            os.replace(draft.name, self._path)
        except OSError:
            return

    def _load(self) -> dict[str, list[object]]:
        try:
            stored = json.loads(self._path.read_bytes())
            files = stored["files"] if stored["version"] == VERSION else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return files if isinstance(files, dict) else {}


def cache_folder() -> Path:
    """Where digests are kept: XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runspine" / "code"


def _mark(status: os.stat_result) -> list[object]:
    return [status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size]


def _read(path: Path, file: ProjectFile, keys_allowed: bool) -> str:
    whole, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as opened:
            while data := opened.read(CHUNK):
                if size == 0 and not keys_allowed and is_private_key(data):
                    raise CodeRefusedError(
                        f"{path} is a private key, and stored code is kept for ever: leave it out with a "
                        f"line in .runspineignore, or store it all the same with `!{file.path}` there"
                    )
                whole.update(data)
                size += len(data)
    except OSError as error:
        raise CodeRefusedError(f"{path} cannot be read: {error.strerror}") from error
    if size != file.status.st_size:
        raise CodeRefusedError(f"{path} was changed while it was read: submit again")
    return whole.hexdigest()


def is_private_key(data: bytes) -> bool:
    """Whether a file begins like a private key in PEM."""
    line = data[:200].lstrip().partition(b"\n")[0].rstrip()
    return line.startswith(_BEGIN) and line.endswith(_PRIVATE_KEY)
