"""TensorBoard: each folder with event files is a run, as TensorBoard itself has it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from runspine.domain.event_files import is_event_file
from runspine.domain.event_scalars import EventFileError, EventFileReader
from runspine.imports.source import Point, SourceError, SourceRun

TOOL = "tensorboard"
CHUNK = 1 << 20


def find(path: Path) -> list[SourceRun]:
    files = [path] if path.is_file() else sorted(path.rglob("events.out.tfevents.*"))
    folders: dict[Path, list[Path]] = {}
    for file in files:
        if is_event_file(str(file)) and file.is_file():
            folders.setdefault(file.parent, []).append(file)
    root = path.parent if path.is_file() else path
    return [
        SourceRun(TOOL, _name(folder, root), str(folder), partial(read_points, found))
        for folder, found in sorted(folders.items())
    ]


def read_points(files: list[Path]) -> Iterator[Point]:
    for path in files:
        reader = EventFileReader()
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                try:
                    scalars = reader.feed(chunk)
                except EventFileError as error:
                    raise SourceError(f"{path}: {error}") from error
                for tag, step, value, at in scalars:
                    yield Point(tag, step, value, at / 1e6)


def _name(folder: Path, root: Path) -> str:
    inner = str(folder.relative_to(root))
    return root.resolve().name if inner == "." else inner
