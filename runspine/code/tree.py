"""The manifest of a code tree: every file with mode, size and digest, in one canonical form. Pure.

One line of JSON for each entry, sorted by path, after a line with the format. The same files give the same
bytes on every machine; the SHA-256 of these bytes names the tree.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FORMAT = "runspine code tree 1"
FILE, PROGRAM, LINK = "file", "program", "link"
MAX_FILES = 20_000
MAX_FILE_BYTES = 64 << 20
MAX_BYTES = 512 << 20
MAX_MANIFEST_BYTES = 32 << 20
MAX_PATH_BYTES = 1024
MAX_NAME_BYTES = 255
DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class CodeTreeError(Exception):
    """These bytes are not a code tree, or one that must not be used; the message states the entry."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file, an executable file or a symbolic link of a tree."""

    path: str
    kind: str
    # Of a file.
    size: int = 0
    digest: str = ""
    # Of a link: where it leads, relative to its own folder.
    target: str = ""


@dataclass(frozen=True, slots=True)
class CodeTree:
    """A tree: its manifest's bytes, its digest and its entries."""

    data: bytes
    digest: str
    entries: tuple[TreeEntry, ...]

    @property
    def files(self) -> list[TreeEntry]:
        return [entry for entry in self.entries if entry.kind != LINK]

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)


def make_tree(entries: Iterable[TreeEntry]) -> CodeTree:
    """The tree of these entries. Raises CodeTreeError."""
    ordered = tuple(sorted(entries, key=lambda entry: entry.path.encode()))
    _check(ordered)
    lines = [json.dumps({"format": FORMAT}), *(_line(entry) for entry in ordered)]
    data = ("\n".join(lines) + "\n").encode()
    return CodeTree(data, hashlib.sha256(data).hexdigest(), ordered)


def parse_tree(data: bytes) -> CodeTree:
    """Read a manifest from an untrusted source. Raises CodeTreeError."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise CodeTreeError(f"the manifest has more than {MAX_MANIFEST_BYTES >> 20} MiB")
    try:
        first, *rest = data.decode().splitlines()
        if json.loads(first) != {"format": FORMAT}:
            raise CodeTreeError(f"its format is not {FORMAT!r}: update this installation")
        entries = [_entry(json.loads(line)) for line in rest]
    except (ValueError, TypeError, RecursionError) as error:
        raise CodeTreeError(f"it is not a manifest of a code tree: {error}") from error
    tree = make_tree(entries)
    if tree.data != data:
        raise CodeTreeError("the manifest is not in its canonical form")
    return tree


def check_path(path: str) -> None:
    """Refuse paths that are not plainly below the tree's root. Raises CodeTreeError."""
    parts = path.split("/")
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise CodeTreeError(f"{path!r} is not a UTF-8 name: rename it") from error
    if not path or path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise CodeTreeError(f"{path!r} is not a path below the tree's root")
    if parts[0] == ".git":
        raise CodeTreeError(f"{path!r} belongs to git, not to the code")
    if size > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise CodeTreeError(f"{path[:80]!r}… is longer than {MAX_PATH_BYTES} bytes")


def link_inside(path: str, target: str) -> bool:
    """Whether a link leads to a place inside the tree, by its text alone.

    `..` is accepted at the beginning only: after a name, which may be a link itself, it could lead out.
    """
    if not target or target.startswith("/") or "\0" in target or len(target) > MAX_PATH_BYTES:
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    return ".." not in parts[up:] and up <= path.count("/")


def _line(entry: TreeEntry) -> str:
    if entry.kind == LINK:
        return json.dumps([entry.kind, entry.path, entry.target])
    return json.dumps([entry.kind, entry.path, entry.size, entry.digest])


def _entry(values: Sequence[object]) -> TreeEntry:
    match values:
        case ["link", str(path), str(target)]:
            return TreeEntry(path, LINK, target=target)
        case ["file" | "program" as kind, str(path), int(size), str(digest)] if type(size) is int:
            return TreeEntry(path, str(kind), size, digest)
    raise CodeTreeError(f"{str(values)[:200]} is neither a file nor a link")


def _check(entries: Sequence[TreeEntry]) -> None:
    if len(entries) > MAX_FILES:
        raise CodeTreeError(f"{len(entries):,} files, more than the {MAX_FILES:,} accepted")
    paths: set[str] = set()
    folders: set[str] = set()
    for entry in entries:
        check_path(entry.path)
        if entry.path in paths:
            raise CodeTreeError(f"{entry.path!r} is named twice")
        paths.add(entry.path)
        folder = posixpath.dirname(entry.path)
        while folder and folder not in folders:
            folders.add(folder)
            folder = posixpath.dirname(folder)
        _check_content(entry)
    if both := paths & folders:
        # A link in the place of a folder would lead the files below it elsewhere.
        raise CodeTreeError(f"{min(both)!r} is a file or link, and a folder too")
    if sum(entry.size for entry in entries) > MAX_BYTES:
        raise CodeTreeError(f"more than {MAX_BYTES >> 20} MiB in all")


def _check_content(entry: TreeEntry) -> None:
    if entry.kind == LINK:
        if not link_inside(entry.path, entry.target):
            raise CodeTreeError(f"{entry.path!r} is a link to {entry.target[:200]!r}, out of the tree")
    elif not DIGEST.match(entry.digest):
        raise CodeTreeError(f"{entry.path!r} has no SHA-256")
    elif not 0 <= entry.size <= MAX_FILE_BYTES:
        raise CodeTreeError(f"{entry.path!r} has more than {MAX_FILE_BYTES >> 20} MiB")
