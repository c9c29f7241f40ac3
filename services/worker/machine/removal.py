"""Removes the contents of a directory by descriptors, without following links and at any depth."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator

# A directory that its owner has closed is opened again before its contents are removed.
OPEN_MODE = 0o700


class NotRemovedError(Exception):
    """Something in the directory could not be removed; the message states what and why."""


class RemovalStoppedError(Exception):
    """The removal was stopped; the next one continues."""


def empty_directory(name: str, parent: int, stopping: Callable[[], bool]) -> None:
    """Remove everything inside `name`, a directory below the descriptor `parent`. Blocks.

    A directory in it is renamed to the top before its own files are removed, so that neither the depth
    of the tree nor the number of open files matters. Raises NotRemovedError and RemovalStoppedError.
    """
    try:
        with _opened(name, parent) as top:
            device, moved = os.fstat(top).st_dev, 0
            while names := _directories(top, stopping):
                for each in names:
                    with _opened(each, top) as folder:
                        if os.fstat(folder).st_dev != device:
                            raise NotRemovedError(f"{each} is on another file system")
                        for inner in _directories(folder, stopping):
                            moved += 1
                            _move_up(inner, folder, top, moved)
                    os.rmdir(each, dir_fd=top)
    except OSError as error:
        raise NotRemovedError(str(error)) from error


def _directories(folder: int, stopping: Callable[[], bool]) -> list[str]:
    """Remove what is not a directory; the names of the directories."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if stopping():
                raise RemovalStoppedError
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return found


def _move_up(name: str, folder: int, top: int, number: int) -> None:
    """Rename a directory to the top, under a name that is free."""
    # Its owner must be able to write it: a move changes its entry for the parent.
    with _opened(name, folder):
        pass
    while True:
        target = f"moved-{number}"
        with contextlib.suppress(FileNotFoundError):
            os.stat(target, dir_fd=top, follow_symlinks=False)
            number += 1_000_003
            continue
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=top)
        return


@contextlib.contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    """A descriptor of a directory and never of a link to one."""
    path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        about = os.fstat(path)
        if stat.S_IMODE(about.st_mode) & OPEN_MODE != OPEN_MODE and about.st_uid == os.geteuid():
            os.chmod(f"/proc/self/fd/{path}", OPEN_MODE)
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=path)
    finally:
        os.close(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
