"""Writes a run of another tool as files that a worker reports: the same run gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path

from runspine.code.snapshot import CodeSnapshot
from runspine.code.tree import FILE, TreeEntry, make_tree
from runspine.imports.source import Point, SourceRun

HEAD = "run.json"
PARTS = "history"
# Of a part: rows, and their size before compression, well below the largest file of stored code.
ROWS = 200_000
COMPRESSION = 6


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A run as files."""

    snapshot: CodeSnapshot
    points: int
    # Seconds since 1970 of its first and last point; 0 when they have no times.
    began: float
    ended: float


def pack(run: SourceRun, folder: Path) -> PackedRun:
    """Write the run into an empty folder. Raises SourceError."""
    head = {"tool": run.tool, "name": run.name, "config": dict(run.config)}
    (folder / HEAD).write_text(json.dumps(head, sort_keys=True, default=str), encoding="utf-8")
    (folder / PARTS).mkdir()
    span = _Span()
    rows = _rows(span.seen(run.points()))
    number = 0
    while part := list(islice(rows, ROWS)):
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in part)
        (folder / PARTS / f"{number:05}.jsonl.gz").write_bytes(
            # No time in it: the same rows are the same bytes.
            gzip.compress(text.encode(), COMPRESSION, mtime=0)
        )
        number += 1
    return PackedRun(_snapshot(folder), span.points, span.began, span.ended)


class _Span:
    def __init__(self) -> None:
        self.points, self.began, self.ended = 0, 0.0, 0.0

    def seen(self, points: Iterator[Point]) -> Iterator[Point]:
        for point in points:
            self.points += 1
            if point.at:
                self.began = min(self.began or point.at, point.at)
                self.ended = max(self.ended, point.at)
            yield point


def _rows(points: Iterator[Point]) -> Iterator[dict[str, object]]:
    """Rows of the protocol: neighbours at one step and time together, each name once."""
    for (step, at), group in groupby(points, key=lambda point: (point.step, point.at)):
        values: dict[str, float] = {}
        for point in group:
            if point.name in values:
                yield {"v": values, "s": step, "t": at}
                values = {}
            values[point.name] = point.value
        yield {"v": values, "s": step, "t": at}


def _snapshot(folder: Path) -> CodeSnapshot:
    sources: dict[str, Path] = {}
    entries = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        sources[digest] = path
        entries.append(TreeEntry(str(path.relative_to(folder)), FILE, len(data), digest))
    return CodeSnapshot(folder, make_tree(entries), sources, None, len(entries))
