"""Working copies of code trees: each file is verified by its digest while it is copied. Blocks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from runspine.code.tree import LINK, PROGRAM, TreeEntry
from runspine.services.worker.artifacts.code_folder import TREE_TIME

CHUNK = 1 << 20


class CacheEntryError(Exception):
    """A file of the cache is not there, or not what it was when it was stored."""


def copy_files(entries: Sequence[TreeEntry], cache: Path, target: Path) -> dict[str, str]:
    """Copy files from the cache; what could not be copied, by digest, with the reason ("" when not there).

    Files of the cache that are not as stored are removed from it.
    """
    left: dict[str, str] = {}
    for entry in entries:
        if entry.kind == LINK:
            continue
        path = target / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _copy(cache / entry.digest, path, entry)
        except FileNotFoundError:
            left[entry.digest] = ""
        except CacheEntryError as error:
            left[entry.digest] = f"{entry.path}: {error}"
            with contextlib.suppress(OSError):
                (cache / entry.digest).unlink()
    return left


def finish_copy(entries: Sequence[TreeEntry], draft: Path, target: Path, directory: str) -> None:
    """Add the links, after all files, so that no file is written through one; then move it into place."""
    for entry in entries:
        if entry.kind == LINK:
            path = draft / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(entry.target)
    (draft / directory).mkdir(parents=True, exist_ok=True)
    if target.exists():
        remove_folder(target)
    draft.rename(target)


def remove_folder(path: Path) -> None:
    """Remove a folder that may be gone."""
    shutil.rmtree(path, ignore_errors=True)


def _copy(source: Path, path: Path, entry: TreeEntry) -> None:
    """Copy one file. Raises FileNotFoundError, CacheEntryError."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CacheEntryError(f"it cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as cached:
        _check(os.fstat(descriptor), entry)
        # A copy that an earlier round had to give up may be there.
        path.unlink(missing_ok=True)
        mode = 0o755 if entry.kind == PROGRAM else 0o644
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as copy:
            whole = hashlib.sha256()
            for data in iter(lambda: cached.read(CHUNK), b""):
                whole.update(data)
                copy.write(data)
        if whole.hexdigest() != entry.digest:
            path.unlink()
            raise CacheEntryError("its bytes were changed")
        os.utime(path, ns=(TREE_TIME, TREE_TIME))


def _check(about: os.stat_result, entry: TreeEntry) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise CacheEntryError("it is not a regular file")
    if about.st_uid != os.geteuid():
        raise CacheEntryError(f"it belongs to another user ({about.st_uid})")
    if about.st_mode & 0o022:
        raise CacheEntryError("other users may write to it")
    if about.st_size != entry.size:
        raise CacheEntryError(f"it has {about.st_size:,} bytes instead of {entry.size:,}")


def cached_files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Files of the cache: last use, bytes and path."""
    if not folder.is_dir():
        return
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            about = entry.stat(follow_symlinks=False)
            yield about.st_mtime, about.st_size, Path(entry.path)
