"""The record of a virtualenv: every file with its digest, so that a change is noticed before use. Blocks.

Digests are compared after a restart of the machine, and for files whose status differs; otherwise the status
alone: no program can set the time of a file's last change of status (ctime) back.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

FORMAT = 1
VENV, RECORD = "venv", "record.json"
CHUNK = 1 << 20
MAX_FILES = 500_000
MAX_PACKAGES = 10_000
MAX_TEXT = 200
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class NotKeptError(Exception):
    """A virtualenv has something that must not be kept; the message states what."""


@dataclass(frozen=True, slots=True)
class Record:
    """What was built."""

    python: str
    # "name==version" a line, sorted.
    packages: bytes
    bytes: int


def write_record(folder: Path, python: str) -> Record:
    """Make the files of folder/venv read-only and record them. Raises NotKeptError, OSError."""
    venv = folder / VENV
    files: dict[str, list[Any]] = {}
    links: dict[str, str] = {}
    for name, path, status in _entries(venv):
        if stat.S_ISLNK(status.st_mode):
            links[name] = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            path.chmod(status.st_mode & 0o555)
            files[name] = [*_stamp(path.lstat()), _digest(path)]
        elif stat.S_ISDIR(status.st_mode):
            path.chmod(0o755)
        else:
            raise NotKeptError(f"{name} is neither a file, a link nor a folder")
        if len(files) > MAX_FILES:
            raise NotKeptError(f"more than {MAX_FILES:,} files")
    packages = _installed(venv)
    size = sum(entry[0] for entry in files.values())
    _write(
        folder,
        {"python": python, "packages": packages, "bytes": size, "files": files, "links": links},
    )
    return Record(python, _listing(packages), size)


def read_verified(folder: Path) -> tuple[Record | None, str]:
    """The record of a virtualenv whose files are what was built; else None, and what differs.

    Without a virtualenv the text is empty.
    """
    try:
        about = folder.lstat()
    except FileNotFoundError:
        return None, ""
    try:
        if not stat.S_ISDIR(about.st_mode) or not _own(about):
            return None, "its folder belongs to another user, or others may write to it"
        if not _own((folder / RECORD).lstat()):
            return None, "its record belongs to another user, or others may write to it"
        known = json.loads((folder / RECORD).read_bytes())
        problem = _difference(folder / VENV, known)
        if problem:
            return None, problem
        if known["boot"] != _boot():
            _write(folder, known)
        return Record(known["python"], _listing(known["packages"]), known["bytes"]), ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"it cannot be read: {error}"


def remove_folder(folder: Path) -> None:
    """Remove a folder that may be gone, whatever a build has left in it.

    By programs of the system, which pass through folders of any depth.
    """
    if folder.is_dir() and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], check=False, capture_output=True)


def _difference(venv: Path, known: dict[str, Any]) -> str:
    """What differs from the record; empty when nothing does. Stamps that have changed are renewed in it."""
    files, links, seen = known["files"], known["links"], 0
    fresh = known["boot"] == _boot()
    for name, path, status in _entries(venv):
        if stat.S_ISDIR(status.st_mode):
            if not _own(status):
                return f"{name} belongs to another user, or others may write to it"
            continue
        seen += 1
        if stat.S_ISLNK(status.st_mode):
            if links.get(name) != os.readlink(path):
                return f"{name} is another link"
        elif why := _changed(name, path, status, files.get(name), fresh):
            return why
    return "" if seen == len(files) + len(links) else "files are missing"


def _changed(name: str, path: Path, status: os.stat_result, entry: list[Any] | None, fresh: bool) -> str:
    if entry is None:
        return f"{name} was added"
    if not stat.S_ISREG(status.st_mode) or not _own(status):
        return f"{name} belongs to another user, or others may write to it"
    if fresh and entry[:-1] == _stamp(status):
        return ""
    if status.st_size != entry[0] or _digest(path) != entry[-1]:
        return f"{name} was changed"
    entry[:-1] = _stamp(status)
    return ""


def _entries(venv: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Everything in the folder with its status, links not followed; the folder itself first."""
    yield ".", venv, venv.lstat()
    waiting = [venv]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                path, status = Path(entry.path), entry.stat(follow_symlinks=False)
                yield path.relative_to(venv).as_posix(), path, status
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mode, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _digest(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(folder: Path, known: dict[str, Any]) -> None:
    draft = folder / f".{RECORD}.{os.getpid()}"
    draft.write_text(json.dumps({**known, "format": FORMAT, "boot": _boot()}))
    draft.chmod(0o600)
    os.replace(draft, folder / RECORD)


def _boot() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _installed(venv: Path) -> list[str]:
    """Names and versions, as the files of the packages state them; nothing of them is run."""
    found: dict[str, str] = {}
    for distribution in distributions(path=[str(path) for path in venv.glob("lib/python3*/site-packages")]):
        name = str(distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name and len(found) < MAX_PACKAGES:
            found[" ".join(name.split())[:MAX_TEXT]] = " ".join(str(distribution.version).split())[:MAX_TEXT]
    return sorted(f"{name}=={version}" for name, version in found.items())


def _listing(packages: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in packages).encode()
