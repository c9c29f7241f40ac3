"""Opens files of a run's directory by descriptor: below the directory, and never through a symlink.

A trainer can exchange any part of a path between a check and an open. So nothing is checked by path: a
file is opened once, in one resolution that leaves the directory under no circumstances, and the
descriptor is what is checked, read and linked.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
STRICT = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
# The same number on every architecture: it is younger than the tables' unification.
_SYS_OPENAT2 = 437
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = (errno.ENOSYS, errno.EPERM, errno.E2BIG)
_libc = ctypes.CDLL(None, use_errno=True)


class NotBeneathError(OSError):
    """The path leaves its directory, or a symlink is a part of it."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextlib.contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """A descriptor of a directory whose path has no symlink in it. Raises OSError."""
    folder = folder.absolute()
    root = os.open("/", _FOLDER)
    try:
        descriptor = open_beneath(root, str(folder).lstrip("/"), _FOLDER) if folder != Path("/") else root
    finally:
        if folder != Path("/"):
            os.close(root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path below the directory of a descriptor. Raises NotBeneathError and OSError."""
    parts = _parts(path)
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return _openat2(folder, "/".join(parts), flags, mode)
    except NotImplementedError:
        return _walk(folder, parts, flags, mode)


def open_regular(folder: int, path: str) -> int:
    """A descriptor to read a regular file below the directory. Raises NotBeneathError and OSError."""
    # Without O_NONBLOCK a pipe that nobody writes to would block for ever.
    descriptor = open_beneath(folder, path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def link_descriptor(descriptor: int, folder: Path, name: str) -> None:
    """Give the file of a descriptor one more name; whatever its path leads to by now. Raises OSError."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # With a directory descriptor Python calls linkat, which can follow the link in /proc to the file.
        os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=place, dst_dir_fd=place, follow_symlinks=True)
    finally:
        os.close(place)


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path or path.startswith("/"):
        raise NotBeneathError(errno.EXDEV, "the path leaves its directory")
    return parts or ["."]


def _openat2(folder: int, path: str, flags: int, mode: int) -> int:
    """The system call. Raises NotImplementedError where the kernel, or a filter of system calls, lacks it."""
    how = _OpenHow(flags, mode, STRICT)
    descriptor = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if descriptor >= 0:
        return int(descriptor)
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        raise NotImplementedError
    raise _error(number, path)


def _walk(folder: int, parts: list[str], flags: int, mode: int) -> int:
    """One component after the other, each below the descriptor of the one before."""
    here = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return os.open(parts[-1], flags, mode, dir_fd=here)
    except OSError as error:
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(here, parts)
        raise _error(errno.ELOOP if is_link else error.errno or 0, "/".join(parts)) from error
    finally:
        os.close(here)


def _is_link(folder: int, parts: list[str]) -> bool:
    """Whether one of the names in this directory is a symlink, for the words of an error."""
    for part in parts:
        with contextlib.suppress(OSError):
            if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
                return True
    return False


def _error(number: int, path: str) -> OSError:
    if number == errno.ELOOP:
        return NotBeneathError(number, "a part of its path is a symlink", path)
    if number == errno.EXDEV:
        return NotBeneathError(number, "the path leaves its directory", path)
    return OSError(number, os.strerror(number), path)
