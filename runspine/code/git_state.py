"""What git knows of a folder: its work tree, files, commit, remote and differences."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MAX_DIFF_BYTES = 1 << 20
GIT_SECONDS = 60.0
_CREDENTIALS = re.compile(r"\A([a-z][a-z0-9+.-]*://)[^/]*@", re.IGNORECASE)
_QUERY = re.compile(r"[?#].*\Z", re.DOTALL)


class GitError(Exception):
    """git is not installed, or does not answer for this folder."""


@dataclass(frozen=True, slots=True)
class GitState:
    """Commit, branch and remote of a work tree, and how its files differ from the commit."""

    commit: str
    branch: str
    remote: str
    diff: bytes
    diff_cut: bool
    dirty: bool


def work_tree_of(folder: Path) -> Path | None:
    """The root of the git work tree that holds this folder; None outside of one, or without git."""
    try:
        root = _git(folder, "rev-parse", "--show-toplevel").decode(errors="surrogateescape").rstrip("\n")
    except GitError:
        return None
    return Path(root) if root else None


def files_of(root: Path) -> list[str]:
    """Tracked files and untracked ones that are not ignored, below the root. Raises GitError."""
    out = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    return [os.fsdecode(name) for name in out.split(b"\0") if name]


def read_state(root: Path) -> GitState | None:
    """The state of a work tree; None when git does not answer."""
    try:
        status = _git(root, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
    except GitError:
        return None
    fields = dict(
        part[2:].decode(errors="replace").partition(" ")[::2]
        for part in status.split(b"\0")
        if part.startswith(b"# ")
    )
    commit = fields.get("branch.oid", "")
    commit = "" if commit.startswith("(") else commit
    branch = fields.get("branch.head", "")
    dirty = any(part and not part.startswith(b"# ") for part in status.split(b"\0"))
    diff = _diff(root) if dirty and commit else b""
    return GitState(
        commit=commit,
        branch="" if branch.startswith("(") else branch,
        remote=_remote(root, fields.get("branch.upstream", "")),
        diff=diff[:MAX_DIFF_BYTES],
        diff_cut=len(diff) > MAX_DIFF_BYTES,
        dirty=dirty,
    )


def without_credentials(address: str) -> str:
    """The address of a remote without user, password, token and query."""
    return _QUERY.sub("", _CREDENTIALS.sub(r"\1", address.strip()))


def commits_between(root: Path, good: str, bad: str) -> list[str]:
    """Commits after `good` up to `bad`, oldest first; empty when `bad` does not descend from it.

    Raises GitError when the repository does not have them.
    """
    out = _git(root, "rev-list", "--reverse", "--topo-order", "--ancestry-path", f"{good}..{bad}", "--")
    return out.decode().split()


def subject_of(root: Path, commit: str) -> str:
    """The first line of a commit's message."""
    return _git(root, "show", "-s", "--format=%s", commit).decode(errors="replace").strip()


@contextmanager
def checked_out(root: Path, commit: str) -> Iterator[Path]:
    """A commit's files in a temporary work tree. Raises GitError."""
    with tempfile.TemporaryDirectory(prefix="runspine-bisect-") as folder:
        place = Path(folder) / "tree"
        _git(root, "worktree", "add", "--detach", "--quiet", str(place), commit)
        try:
            yield place
        finally:
            _git(root, "worktree", "remove", "--force", str(place))


def _remote(root: Path, upstream: str) -> str:
    name = upstream.partition("/")[0] or "origin"
    try:
        # The configured address: `remote get-url` would apply rewrites, which may hold credentials.
        address = _git(root, "config", "--get", f"remote.{name}.url")
    except GitError:
        return ""
    return without_credentials(address.decode(errors="replace"))


def _diff(root: Path) -> bytes:
    """The difference of tracked files to the commit; the tree itself has the untracked ones."""
    try:
        return _git(root, "diff", "HEAD", "--no-ext-diff", "--no-color", "--no-textconv", "--src-prefix=a/",
                    "--dst-prefix=b/")  # fmt: skip
    except GitError:
        return b""


def _git(folder: Path, *arguments: str) -> bytes:
    # No locks and no prompts; a repository's own configuration must not start programs.
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(name, None)
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=GIT_SECONDS, env=environment)
    except (OSError, subprocess.SubprocessError) as error:
        raise GitError(str(error)) from error
    return done.stdout
