"""MLflow: a folder of runs (`mlruns`), or its SQLite database (`mlflow.db`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from runspine.imports.source import Point, SourceError, SourceRun, whole_step

TOOL = "mlflow"
SUFFIXES = (".db", ".sqlite", ".sqlite3")
HEADER = b"SQLite format 3\0"
NAME_TAG = "mlflow.runName"


def find(path: Path) -> list[SourceRun]:
    if path.is_file():
        return _of_database(path) if path.suffix in SUFFIXES else []
    databases = (file for file in sorted(path.glob("*")) if file.suffix in SUFFIXES and file.is_file())
    found = [run for file in databases for run in _of_database(file)]
    return found + [_of_folder(file.parent) for file in sorted(path.rglob("meta.yaml")) if _is_run(file)]


def _is_run(meta: Path) -> bool:
    return (meta.parent / "metrics").is_dir() or (meta.parent / "params").is_dir()


def _of_folder(folder: Path) -> SourceRun:
    try:
        meta = yaml.safe_load((folder / "meta.yaml").read_text(encoding="utf-8")) or {}
        params = {
            _below(each, "params"): each.read_text(encoding="utf-8") for each in _files(folder / "params")
        }
        experiment = yaml.safe_load(_text(folder.parent / "meta.yaml")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SourceError(f"{folder}: {error}") from error
    name = meta.get("run_name") or _text(folder / "tags" / NAME_TAG) or folder.name
    points = partial(_points_of_folder, folder)
    return SourceRun(TOOL, str(name), str(folder), points, params, str(experiment.get("name") or ""))


def _points_of_folder(folder: Path) -> Iterator[Point]:
    for path in _files(folder / "metrics"):
        name = _below(path, "metrics")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                at, value, *step = line.split()
                yield Point(name, whole_step(float(step[0]) if step else 0), float(value), int(at) / 1e3)
            except ValueError as error:
                raise SourceError(f"{path}, line {number}: {error}") from error


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]


def _below(path: Path, folder: str) -> str:
    """The name of a metric may hold slashes: they are folders."""
    parts = path.parts
    return "/".join(parts[len(parts) - parts[::-1].index(folder) :])


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _of_database(path: Path) -> list[SourceRun]:
    with path.open("rb") as file:
        if file.read(len(HEADER)) != HEADER:
            return []
    try:
        with closing(_opened(path)) as database:
            rows = database.execute(
                "SELECT r.run_uuid, r.name, e.name FROM runs r JOIN experiments e USING (experiment_id)"
                " WHERE r.lifecycle_stage = 'active' ORDER BY r.start_time, r.run_uuid"
            ).fetchall()
            params: dict[str, dict[str, Any]] = {}
            for run, key, value in database.execute("SELECT run_uuid, key, value FROM params"):
                params.setdefault(run, {})[key] = value
    except sqlite3.Error as error:
        raise SourceError(f"{path}: no database of MLflow: {error}") from error
    return [
        SourceRun(
            TOOL, name or run, f"{path}#{run}", partial(_rows, path, run), params.get(run, {}), experiment
        )
        for run, name, experiment in rows
    ]


def _rows(path: Path, run: str) -> Iterator[Point]:
    query = (
        "SELECT key, step, value, is_nan, timestamp FROM metrics WHERE run_uuid = ?"
        " ORDER BY key, timestamp, step, value"
    )
    with closing(_opened(path)) as database:
        for key, step, value, nan, at in database.execute(query, (run,)):
            yield Point(key, whole_step(step), float("nan") if nan else float(value), at / 1e3)


def _opened(path: Path) -> sqlite3.Connection:
    """Read only: another process may write to it."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
