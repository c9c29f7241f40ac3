"""Finds the runs of other tools below a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runspine.imports import csv_files, mlflow_store, tensorboard, wandb_files
from runspine.imports.source import SourceError, SourceRun

FINDERS: dict[str, Callable[[Path], list[SourceRun]]] = {
    tensorboard.TOOL: tensorboard.find,
    wandb_files.TOOL: wandb_files.find,
    mlflow_store.TOOL: mlflow_store.find,
    csv_files.TOOL: csv_files.find,
}


def find_runs(path: Path, tool: str = "") -> list[SourceRun]:
    """Runs of one tool, or of all. Raises SourceError."""
    if not path.exists():
        raise SourceError(f"{path} does not exist")
    tools = [tool] if tool else list(FINDERS)
    found = [run for each in tools for run in FINDERS[each](path)]
    if not found:
        raise SourceError(f"{path} holds no run of {', '.join(tools)}")
    return found
