"""Write rows as CSV or Parquet, by file extension, atomically."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runspine.errors import InvalidError

ENDINGS = (".csv", ".parquet")


def check_ending(path: Path, endings: Sequence[str] = ENDINGS) -> str:
    ending = path.suffix.lower()
    if ending not in endings:
        raise InvalidError(f"{path}: the name must end in {' or '.join(endings)}")
    return ending


def write_rows(path: Path, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    ending = check_ending(path)
    draft = path.with_name(f".{path.name}.part")
    try:
        if ending == ".csv":
            with draft.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(headings)
                writer.writerows([_cell(value) for value in row] for row in rows)
        else:
            _write_parquet(draft, headings, rows)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidError(f"{path}: {error.strerror or error}") from error


def _cell(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def _write_parquet(path: Path, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise InvalidError(
            "Parquet needs the package pyarrow; install it with: pip install 'runspine[compare]'"
        ) from error
    columns = list(zip(*rows, strict=True)) or [()] * len(headings)
    pq.write_table(
        pa.table({name: list(column) for name, column in zip(headings, columns, strict=True)}), path
    )
