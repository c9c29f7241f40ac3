"""CSV: a file is a run. Either a column for each metric, or rows of name, step and value."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from runspine.imports.source import Point, SourceError, SourceRun, whole_step

TOOL = "csv"
STEPS = ("step", "global_step", "_step", "Step", "timesteps", "total_timesteps", "iteration", "epoch")
TIMES = ("wall_time", "_timestamp", "timestamp", "time", "Wall time")
NAMES = ("metric", "name", "tag", "key")
VALUE = ("value", "Value")


def find(path: Path) -> list[SourceRun]:
    files = [path] if path.is_file() else sorted(path.rglob("*.csv"))
    root = path.parent if path.is_file() else path
    return [
        SourceRun(TOOL, str(file.relative_to(root).with_suffix("")), str(file), partial(read_points, file))
        for file in files
        if file.suffix == ".csv" and not file.is_symlink()
    ]


def read_points(path: Path) -> Iterator[Point]:
    """Its points; a cell that is empty is none. Raises SourceError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            names = list(rows.fieldnames or ())
            step, time = _first(names, STEPS), _first(names, TIMES)
            name, value = _first(names, NAMES), _first(names, VALUE)
            metrics = [each for each in names if each not in (step, time)]
            for index, row in enumerate(rows):
                at = _number(row, time) or 0.0
                where = _number(row, step)
                here = index if where is None else whole_step(where)
                columns = [(row[name], value)] if name and value else [(each, each) for each in metrics]
                for metric, column in columns:
                    number = _number(row, column)
                    if number is not None and metric:
                        yield Point(metric, here, number, at)
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{path}: {error}") from error


def _first(names: list[str], known: tuple[str, ...]) -> str:
    return next((each for each in known if each in names), "")


def _number(row: Mapping[str, str | None], column: str) -> float | None:
    text = row.get(column) if column else None
    try:
        return float(text) if text else None
    except ValueError:
        return None
