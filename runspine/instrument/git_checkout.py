"""The commit of a git checkout, and whether its files differ from it. Standard library only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GIT_SECONDS = 10.0


def commit_of(folder: Path) -> str:
    """The checked out commit, read from git's files; empty when it is not a git checkout."""
    git = folder / ".git"
    try:
        if git.is_file():
            git = folder / git.read_text().partition("gitdir:")[2].strip()
        head = (git / "HEAD").read_text().strip()
        reference = head.partition("ref: ")[2]
        if not reference:
            return head
        loose = git / reference
        return loose.read_text().strip() if loose.is_file() else _packed(git / "packed-refs", reference)
    except OSError:
        return ""


def is_changed(folder: Path) -> bool | None:
    """Whether tracked files differ from the commit; None when git cannot answer."""
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "status", "--porcelain", "-uno"]
    environment = {"PATH": os.environ.get("PATH", ""), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=GIT_SECONDS, text=True, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return bool(done.stdout.strip()) if done.returncode == 0 else None


def version_of(folder: Path) -> str:
    """The commit, with `changed` when files differ from it; empty without a commit."""
    commit = commit_of(folder)
    return f"{commit} (changed)" if commit and is_changed(folder) else commit


def _packed(file: Path, reference: str) -> str:
    for line in file.read_text().splitlines():
        commit, _, name = line.partition(" ")
        if name == reference:
            return commit
    return ""
