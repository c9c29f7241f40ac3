"""Fields of a grid or a search that the program of a run does not read."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from runspine.spec.command_template import MAPS, placeholders
from runspine.wire.v1.spec_pb2 import RunSpec

# What a program mentions that takes its parameters from the run.
_READS_RUN = re.compile(r"\brunspine\b|RUNSPINE_")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+([A-Za-z_][\w.]*)", re.MULTILINE)
MAX_FILES = 500
MAX_FILE_BYTES = 1 << 20


def unread_fields(spec: RunSpec, paths: Sequence[str], folder: Path) -> list[str]:
    """Of the fields that vary in a grid, those that the program of a spec cannot get to know.

    A program whose source cannot be found may read anything.
    """
    if spec.runner != "script":
        return []
    given = placeholders(spec)
    left = [path for path in paths if path not in given and _is_for_program(path)]
    if not left:
        return []
    texts = list(_sources(spec, folder))
    return [] if not texts or any(map(_READS_RUN.search, texts)) else left


def remedy(path: str) -> str:
    """What to do about a field that nothing reads."""
    option = path.rpartition(".")[2].replace("_", "-")
    return (
        "nothing reads it: the program uses neither runspine nor RUNSPINE_PARAMS, and every run would be the "
        f"same. Pass it on in the command, such as --{option} {{{path}}}"
    )


def _is_for_program(path: str) -> bool:
    return path.partition(".")[0] in MAPS or path in ("env", "algo", "total_steps")


def _sources(spec: RunSpec, folder: Path) -> Iterator[str]:
    """Texts of the program's files: those in its command, and the local modules that they import."""
    roots = [folder, *([folder / spec.workdir] if spec.workdir else [])]
    waiting = [path for root in roots for path in _named_files(spec.command, root)]
    seen: set[Path] = set()
    while waiting and len(seen) < MAX_FILES:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            with path.open("rb") as file:
                text = file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        yield text
        for name in set(_IMPORT.findall(text)) if path.suffix == ".py" else ():
            for root in {path.parent, *roots}:
                waiting += _module_files(root, name.partition(".")[0])


def _named_files(command: Sequence[str], root: Path) -> Iterator[Path]:
    for before, word in itertools.pairwise(command):
        if before == "-m":
            yield from _module_files(root, word.partition(".")[0])
        elif word and not word.startswith("-") and "\0" not in word and os.path.isfile(root / word):
            yield root / word


def _module_files(root: Path, name: str) -> list[Path]:
    single, package = root / f"{name}.py", root / name
    files = sorted(package.rglob("*.py"))[:MAX_FILES] if (package / "__init__.py").is_file() else []
    return [single, *files] if single.is_file() else files
