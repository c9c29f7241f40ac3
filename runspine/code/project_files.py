"""The files of a project folder that belong to its code, and refusals of what does not.

In a git work tree: tracked files as they are now, and untracked ones that git does not ignore. In another
folder: all files but those that a .gitignore leaves out. `.runspineignore` leaves out more in both.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runspine.code.git_state import GitError, files_of
from runspine.code.ignore import IgnorePattern, is_ignored, read_patterns, verdict
from runspine.code.tree import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, CodeTreeError, check_path, link_inside
from runspine.errors import RefusedError

GIT_IGNORE, OWN_IGNORE = ".gitignore", ".runspineignore"
# Folders that are never code.
SKIPPED = {".git", ".hg", ".svn", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".pytest_cache",
           ".ruff_cache", ".ipynb_checkpoints", ".DS_Store"}  # fmt: skip
# After this the search for what is large ends: the refusal must not take long.
SEARCH_SECONDS = 1.0
MAX_NAMED = 8
_SECRET_NAME = re.compile(
    r"(?:\.env(?:\..+)?|\.netrc|\.pypirc|\.pgpass|\.git-credentials|id_(?:rsa|dsa|ecdsa|ed25519)|"
    r".+\.(?:pfx|p12|jks|keystore|kdbx)|(?:service[-_]account|credentials|client_secret.*)\.json)\Z"
)
# Templates and shell hooks that are meant to be shared.
_NO_SECRET = re.compile(r"\.env\.(?:example|sample|template|dist|defaults?|schema)\Z")
HINT = f"leave it out with a line in {OWN_IGNORE} (the syntax of .gitignore)"


class CodeRefusedError(RefusedError):
    """The folder cannot be stored as code; the message names files and remedies."""


@dataclass(slots=True)
class ProjectFile:
    """A file or link of the project."""

    path: str
    status: os.stat_result
    # Of a link.
    target: str = ""


@dataclass(slots=True)
class ProjectFiles:
    """The result of a search: files by path, and what was wrong."""

    root: Path
    patterns: list[IgnorePattern] = field(default_factory=list)
    found: list[ProjectFile] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    sizes: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    large: list[tuple[int, str]] = field(default_factory=list)
    bytes: int = 0
    files: int = 0

    def add(self, path: str, status: os.stat_result) -> None:
        """Note a file; only what is within the limits is kept."""
        if is_secret_name(path) and not self.is_kept(path):
            self.secrets.append(path)
            return
        entry = ProjectFile(path, status)
        try:
            check_path(path)
        except CodeTreeError as error:
            self.unusable.append(str(error))
            return
        if stat.S_ISLNK(status.st_mode):
            entry.target = os.readlink(self.root / path)
            if not link_inside(path, entry.target):
                self.unusable.append(f"{path} is a link to {entry.target}, out of the folder")
                return
        elif not stat.S_ISREG(status.st_mode):
            self.unusable.append(f"{path} is neither a file nor a link")
            return
        self._count(path, 0 if entry.target else status.st_size)
        if self.files <= MAX_FILES:
            self.found.append(entry)

    def is_kept(self, path: str) -> bool:
        """Whether a line with `!` names the path, so that it is stored although it looks like a secret."""
        found = verdict(self.patterns, path, False)
        return found is not None and found.kept

    def _count(self, path: str, size: int) -> None:
        self.files += 1
        self.bytes += size
        if size > MAX_FILE_BYTES:
            self.large.append((size, path))
        top = _top(path)
        self.sizes[top] += size
        self.counts[top] += 1

    @property
    def within_limits(self) -> bool:
        return self.files <= MAX_FILES and self.bytes <= MAX_BYTES and not self.large


def is_secret_name(path: str) -> bool:
    """Whether a file's name is one under which keys and passwords are kept."""
    name = path.rpartition("/")[2]
    return bool(_SECRET_NAME.match(name)) and not _NO_SECRET.match(name)


def project_files(root: Path, *, git: bool) -> ProjectFiles:
    """The files of a folder. Raises CodeRefusedError."""
    files = ProjectFiles(root)
    files.patterns = _patterns(root, "", OWN_IGNORE)
    started = time.monotonic()
    for path, status in _listed(root, files) if git else _walked(root, files):
        files.add(path, status)
        if not files.within_limits and time.monotonic() - started > SEARCH_SECONDS:
            break
    _refuse(files)
    return files


def _refuse(files: ProjectFiles) -> None:
    """Raise CodeRefusedError for what cannot be stored."""
    if files.large or not files.within_limits:
        raise CodeRefusedError(_size_text(files))
    if files.secrets:
        names = _names(files.secrets)
        raise CodeRefusedError(
            f"{files.root}: {names} may hold secrets, and stored code is kept for ever: "
            f"{HINT}, or store it all the same with a line that begins with `!`, such as "
            f"`!{files.secrets[0]}`. Give secrets to a run with `secrets` in its run file"
        )
    if files.unusable:
        raise CodeRefusedError(f"{files.root}: {_names(files.unusable, '; ')}: {HINT}")


def _size_text(files: ProjectFiles) -> str:
    limits = f"{MAX_FILES:,} files, {MAX_BYTES >> 20} MiB in all and {MAX_FILE_BYTES >> 20} MiB for each file"
    if files.large:
        big = [f"{path} ({_mib(size)})" for size, path in sorted(files.large, reverse=True)]
        what = f"too large for code: {_names(big)}"
    else:
        by = files.sizes if files.bytes > MAX_BYTES else files.counts
        parts = [
            f"{top} ({files.counts[top]:,} files, {_mib(files.sizes[top])})" for top, _ in by.most_common(4)
        ]
        what = (
            f"too much for code: {files.files:,} files, {_mib(files.bytes)} or more; most in {_names(parts)}"
        )
    return (
        f"{files.root}: {what}. The limit is {limits}. Leave data, checkpoints and results out with a line "
        f"in {OWN_IGNORE} (the syntax of .gitignore), choose a smaller folder with --code DIR, "
        "or store no code with --no-code"
    )


def _names(names: list[str], separator: str = ", ") -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return separator.join(names[:MAX_NAMED]) + more


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _top(path: str) -> str:
    head, slash, _ = path.partition("/")
    return head + slash


def _patterns(root: Path, folder: str, name: str) -> list[IgnorePattern]:
    try:
        text = (root / folder / name).read_text(errors="replace")
    except OSError:
        return []
    return read_patterns(text, folder)


def _listed(root: Path, files: ProjectFiles) -> Iterator[tuple[str, os.stat_result]]:
    """Files by git's index and ignore rules."""
    try:
        names = files_of(root)
    except GitError as error:
        raise CodeRefusedError(f"{root}: its files cannot be listed with git: {error}") from error
    own = [name for name in names if name.rpartition("/")[2] == OWN_IGNORE and "/" in name]
    for name in sorted(own, key=lambda each: each.count("/")):
        files.patterns += _patterns(root, name.rpartition("/")[0], OWN_IGNORE)
    for path in names:
        if files.patterns and is_ignored(files.patterns, path):
            continue
        try:
            status = os.lstat(root / path)
        except OSError:
            continue  # deleted, and the deletion is not committed yet
        if stat.S_ISDIR(status.st_mode):
            yield from _submodule(root, path, files)
        else:
            yield path, status


def _submodule(root: Path, path: str, files: ProjectFiles) -> Iterator[tuple[str, os.stat_result]]:
    """Files of a work tree inside this one, which git lists as one name. Its own changes count too."""
    path = path.rstrip("/")
    if not (root / path / ".git").exists():
        return
    inner = ProjectFiles(root / path)
    for name, status in _listed(root / path, inner):
        whole = f"{path}/{name}"
        if not is_ignored(files.patterns, whole):
            yield whole, status


def _walked(root: Path, files: ProjectFiles) -> Iterator[tuple[str, os.stat_result]]:
    """Files below a folder without git."""
    waiting: list[tuple[str, list[IgnorePattern]]] = [("", [])]
    while waiting:
        folder, above = waiting.pop()
        patterns = [*above, *_patterns(root, folder, GIT_IGNORE)]
        if folder:
            files.patterns += _patterns(root, folder, OWN_IGNORE)
        for entry in _entries(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            decided = verdict(files.patterns, path, is_folder) or verdict(patterns, path, is_folder)
            if entry.name in SKIPPED or (decided is not None and not decided.kept):
                continue
            if is_folder:
                # A virtualenv belongs to this machine, whatever its name is.
                if not (root / path / "pyvenv.cfg").exists():
                    waiting.append((path, patterns))
            else:
                yield path, entry.stat(follow_symlinks=False)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise CodeRefusedError(
            f"{folder} cannot be read: {error.strerror}. {HINT[0].upper()}{HINT[1:]}"
        ) from error
