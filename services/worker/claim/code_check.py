"""Checks a launch against the manifest of its code, without fetching the files."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runspine.code.tree import MAX_MANIFEST_BYTES, PROGRAM, CodeTreeError, TreeEntry, parse_tree
from runspine.runners import NotReadyError
from runspine.services.worker.artifacts.code_folder import work_folder
from runspine.services.worker.runners.script import PYTHONS
from runspine.storage.keys import code_key
from runspine.wire.v1.spec_pb2 import RunSpec

MAX_TREES = 32
ReadRange = Callable[[str, int, int], bytes | None]


@dataclass(slots=True)
class CodeCheck:
    """Answers whether a program is part of its code. Its methods block."""

    read: ReadRange
    _trees: dict[str, dict[str, TreeEntry]] = field(default_factory=dict)

    def place(self, spec: RunSpec, scratch: Path) -> RunSpec:
        """The spec as if its code were in the scratch directory, where only its program is, empty.

        Raises NotReadyError and BlobsUnavailableError.
        """
        if not spec.code.tree:
            return spec
        entries = self._entries(spec.code.tree)
        start = work_folder(scratch) / spec.code.directory
        start.mkdir(parents=True)
        for word in spec.command[:1]:
            self._place_program(word, spec, entries, scratch)
        _check_script(spec, entries)
        placed = RunSpec()
        placed.CopyFrom(spec)
        placed.workdir = str(start)
        return placed

    def _place_program(self, word: str, spec: RunSpec, entries: dict[str, TreeEntry], scratch: Path) -> None:
        entry = entries.get(_below(spec, word)) if "/" in word and not word.startswith("/") else None
        if entry is not None:
            path = work_folder(scratch) / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o755 if entry.kind == PROGRAM else 0o644)

    def _entries(self, digest: str) -> dict[str, TreeEntry]:
        if digest not in self._trees:
            data = self.read(code_key(digest, tree=True), 0, MAX_MANIFEST_BYTES)
            if data is None or hashlib.sha256(data).hexdigest() != digest:
                raise NotReadyError(
                    f"tree {digest[:12]} is not in S3: submit it again from its folder", "code"
                )
            try:
                tree = parse_tree(data)
            except CodeTreeError as error:
                raise NotReadyError(f"tree {digest[:12]}: {error}", "code") from error
            if len(self._trees) >= MAX_TREES:
                self._trees.pop(next(iter(self._trees)))
            self._trees[digest] = {entry.path: entry for entry in tree.entries}
        return self._trees[digest]


def _check_script(spec: RunSpec, entries: dict[str, TreeEntry]) -> None:
    """Refuse `python NAME.py` when the code has no such file: an ignore file may leave it out."""
    if len(spec.command) < 2 or spec.command[0] not in PYTHONS:
        return
    script = spec.command[1]
    if script.endswith(".py") and not script.startswith(("-", "/")) and _below(spec, script) not in entries:
        where = f"the code ({len(entries):,} files, started in {spec.code.directory or 'its root'})"
        raise NotReadyError(
            f"{script} is not in {where}: correct the path, or the line of .gitignore or .runspineignore "
            "that leaves it out",
            "command",
        )


def _below(spec: RunSpec, word: str) -> str:
    return posixpath.normpath(posixpath.join(spec.code.directory, word))
