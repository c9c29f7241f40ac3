"""Rotation of logs while their writers run: the writers keep their descriptors and no byte is lost.

The oldest part of a log is copied to `.1`, and then taken out of the file: by collapsing its range, which
ext4 and XFS can, else by a hole in its place, which frees the disk as well. A writer appends at the end and
is not affected. A kill in between leaves lines in both files.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from pathlib import Path

KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE = 0x01, 0x02, 0x08
CHUNK_BYTES = 1 << 20
# Two threads that rename the same files at once would overwrite one of them.
RENAMING = threading.Lock()


def rotate_in_place(path: Path, rotate_bytes: int, kept_files: int) -> bool:
    """Move the content of a log to `.1` if it takes more than `rotate_bytes`; whether it did. Blocks."""
    with RENAMING:
        return _rotate(path, rotate_bytes, kept_files)


def _rotate(path: Path, rotate_bytes: int, kept_files: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        about = os.fstat(descriptor)
        # Not its size: a hole in its beginning counts for that.
        if about.st_blocks * 512 <= rotate_bytes:
            return False
        end = about.st_size - about.st_size % about.st_blksize
        start = _first_data(descriptor)
        if end <= start:
            return False
        draft = path.with_name(f"{path.name}.draft")
        _copy(descriptor, start, end, draft)
        shift_files(path, kept_files)
        draft.replace(path.with_name(f"{path.name}.1"))
        _take_out(descriptor, end)
        return True
    finally:
        os.close(descriptor)


def shift_files(path: Path, kept_files: int) -> None:
    """Rename .1 to .2 and so on; the last one is dropped."""
    for number in range(kept_files - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))


def _first_data(descriptor: int) -> int:
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:
        return 0  # a file system that does not know holes


def _copy(descriptor: int, start: int, end: int, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        while start < end:
            data = os.pread(descriptor, min(CHUNK_BYTES, end - start), start)
            start += os.write(copy, data)
        os.fsync(copy)
    finally:
        os.close(copy)


def _take_out(descriptor: int, end: int) -> None:
    """Take the first bytes out of the file. Raises OSError when the file system can do neither."""
    try:
        _fallocate(descriptor, COLLAPSE_RANGE, end)
    except OSError:
        _fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, end)


def _fallocate(descriptor: int, mode: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if libc.fallocate(descriptor, mode, 0, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
