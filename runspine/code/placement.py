"""Puts stored code into specs: where a program starts in its tree, and its paths from there."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import Path

from runspine.errors import InvalidError, Violation
from runspine.wire.v1.spec_pb2 import Code, RunSpec

# The runner whose programs bring code of their own.
RUNNER = "script"
# A file at the top of every virtualenv.
VIRTUALENV = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class PlacedCode:
    """Stored code, the folder it was taken from, and the folder that programs start in."""

    code: Code
    root: Path
    folder: Path
    # Somebody asked for it, rather than it being the default.
    asked: bool = False

    def apply(self, spec: RunSpec) -> None:
        """Give the code to a spec; paths of the project become relative. Raises InvalidError."""
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
            if os.path.isabs(word) and self._travels(Path(os.path.normpath(word))):
                relative = os.path.relpath(word, start)
                # A program without a slash would be looked up on PATH.
                spec.command[index] = relative if index or "/" in relative else f"./{relative}"

    def _travels(self, path: Path) -> bool:
        """Whether a path is meant as one of the project. A virtualenv in its folder stays on this machine."""
        if not path.is_relative_to(self.root):
            return False
        inside = path.relative_to(self.root).parts
        return not any(
            self.root.joinpath(*inside[:depth], VIRTUALENV).is_file() for depth in range(1, len(inside))
        )

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
