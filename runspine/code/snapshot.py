"""Snapshot of a project folder: its tree, and where to read each file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runspine.code.digest_cache import DigestCache
from runspine.code.git_state import GitState, read_state, work_tree_of
from runspine.code.project_files import CodeRefusedError, ProjectFile, project_files
from runspine.code.tree import FILE, LINK, PROGRAM, CodeTree, CodeTreeError, TreeEntry, make_tree


@dataclass(frozen=True, slots=True)
class CodeSnapshot:
    """A folder as it was at one moment."""

    root: Path
    tree: CodeTree
    # A file for each digest of the tree.
    sources: dict[str, Path]
    git: GitState | None
    # Files that were read; the others are known by their status.
    read_files: int


def project_root(folder: Path) -> Path:
    """The folder that a project's code is taken from: the git work tree around it, else itself."""
    return (work_tree_of(folder) or folder).resolve()


def take_snapshot(root: Path) -> CodeSnapshot:
    """Read the files of this folder. Raises CodeRefusedError."""
    if not root.is_dir():
        raise CodeRefusedError(f"{root} is not a folder: name the project's with --code DIR")
    root = root.resolve()
    git = work_tree_of(root) is not None
    files = project_files(root, git=git)
    cache = DigestCache(root)
    entries = [_entry(root, file, cache, keys_allowed=files.is_kept(file.path)) for file in files.found]
    try:
        tree = make_tree(entries)
    except CodeTreeError as error:
        raise CodeRefusedError(f"{root}: {error}") from error
    cache.save()
    sources = {entry.digest: root / entry.path for entry in tree.files}
    return CodeSnapshot(root, tree, sources, read_state(root) if git else None, cache.read_files)


def _entry(root: Path, file: ProjectFile, cache: DigestCache, *, keys_allowed: bool) -> TreeEntry:
    if file.target:
        return TreeEntry(file.path, LINK, target=file.target)
    kind = PROGRAM if file.status.st_mode & 0o100 else FILE
    digest = cache.digest(root, file, keys_allowed=keys_allowed)
    return TreeEntry(file.path, kind, file.status.st_size, digest)
