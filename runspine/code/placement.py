"""Puts stored code into specs: where a program starts in its tree, and its paths from there. Pure."""

from __future__ import annotations

import os.path
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from runspine.errors import InvalidError, Violation
from runspine.wire.v1.spec_pb2 import Code, RunSpec

# The runner whose programs bring code of their own.
RUNNER = "script"


@dataclass(frozen=True, slots=True)
class PlacedCode:
    """Stored code, the folder it was taken from, and the folder that programs start in."""

    code: Code
    root: Path
    folder: Path
    # Files and folders of its tree.
    paths: Collection[str]
    # Somebody asked for it, rather than it being the default.
    asked: bool = False

    def apply(self, spec: RunSpec) -> None:
        """Give the code to a spec; paths of its files become relative. Raises InvalidError."""
        if spec.runner != RUNNER or spec.code.tree or spec.code.image:
            return
        start = self._start(spec)
        if start is None:
            return
        spec.code.CopyFrom(self.code)
        below = start.relative_to(self.root).as_posix()
        spec.code.directory = "" if below == "." else below
        spec.workdir = ""
        for index, word in enumerate(spec.command):
            if os.path.isabs(word) and self._holds(Path(os.path.normpath(word))):
                relative = os.path.relpath(word, start)
                # A program without a slash would be looked up on PATH.
                spec.command[index] = relative if index or "/" in relative else f"./{relative}"

    def _holds(self, path: Path) -> bool:
        """Whether the tree has it: a virtualenv in the folder, for instance, does not travel."""
        if not path.is_relative_to(self.root):
            return False
        return path == self.root or path.relative_to(self.root).as_posix() in self.paths

    def _start(self, spec: RunSpec) -> Path | None:
        """The folder the program starts in; None when it is elsewhere and nobody asked for code."""
        wanted = Path(os.path.normpath(spec.workdir)) if spec.workdir else self.folder
        if wanted.is_relative_to(self.root):
            return wanted
        if not spec.workdir:
            return self.root
        if self.asked:
            what = f"{spec.workdir} is not inside {self.root}, the folder of the code: remove one of them"
            raise InvalidError("the run cannot start there", [Violation("workdir", what)])
        return None


def needs_code(specs: list[RunSpec]) -> bool:
    """Whether a spec runs a program and has no code yet."""
    return any(spec.runner == RUNNER and not spec.code.tree and not spec.code.image for spec in specs)
